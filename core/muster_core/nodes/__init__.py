"""Nodes: their order, and the shapes that fit on them.

They know no asks, only shapes; the holder of an allocation is only a key for them.
"""
