"""Topology of a gang in the naive model, and the scenarios that are about it."""
