"""Nodes: their order, and what fits where.

They know no asks, only shapes; who holds what on a node is a key to them.
"""
