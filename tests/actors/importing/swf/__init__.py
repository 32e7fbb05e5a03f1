"""Tests of the importer of the Standard Workload Format."""
