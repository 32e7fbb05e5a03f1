"""Tests of nodes and accounts of Slurm."""
