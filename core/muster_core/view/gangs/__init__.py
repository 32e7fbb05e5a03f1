"""Gangs as a round sees them: their members, what they lack, and their groups.

What a round does with them is decided in ``permits``.
"""
