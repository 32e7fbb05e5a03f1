"""Tests of the importer of what Slurm says."""
