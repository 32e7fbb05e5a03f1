"""Gangs: what defines one, its states, and the groups that gangs form by naming one another.

This package knows no members, nodes or queues, and imports no other package.
"""
