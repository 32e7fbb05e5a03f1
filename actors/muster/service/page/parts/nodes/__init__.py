"""Nodes: a heat map and a list of them, and a node with what stands on it."""
