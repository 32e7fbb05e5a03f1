"""Gangs as a round sees them: their members, what they lack, and their groups.

The package ``permits`` decides what a round does with them.
"""
