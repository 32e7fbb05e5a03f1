"""Admission: whether an event makes sense now, which names there are, and who is told of it.

It decides nothing about placing asks.
"""
