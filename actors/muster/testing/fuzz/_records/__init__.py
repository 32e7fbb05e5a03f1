"""The records of a fuzzed program: its calls, the accepted events, and the decisions.

Nothing here runs a scheduler.
"""
