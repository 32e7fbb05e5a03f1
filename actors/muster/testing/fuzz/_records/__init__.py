"""What a fuzzed program did: its calls, what was let in, and what was decided.

Nothing here runs a scheduler.
"""
