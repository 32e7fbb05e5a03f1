"""Drawing random programs: their configurations and steps.

It runs nothing.
"""
