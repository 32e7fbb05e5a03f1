"""Kinds of fields: what may stand in a field of an event, and what it means.

They know no operation.
"""
