"""What a report keeps while a replay goes on.

It draws nothing.
"""
