"""Placing asks on nodes and taking them off again: the steps that all decisions are made of.

Which ask goes where is decided in ``rounds``, ``permits`` and ``eviction``.
"""
