"""The public surface: what ``muster`` offers to a program, but for its errors.

Every name here is imported from ``muster``. It decides nothing, and touches no state of owners.
"""
