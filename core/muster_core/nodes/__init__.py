"""Nodes: their order, and which asks fit on them.

They know no asks, only shapes, which are what equal asks need of a node; the holder of an
allocation is only a key for them.
"""
