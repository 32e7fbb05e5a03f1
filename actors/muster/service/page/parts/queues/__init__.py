"""Queues: the tree, and a queue with its settings and its applications."""
