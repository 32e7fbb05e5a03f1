"""The records that a report keeps while a replay runs.

It draws nothing.
"""
