"""Kinds of fields: the values that a field of an event accepts, and what they mean.

They do not know the operations.
"""
