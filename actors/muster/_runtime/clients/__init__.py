"""What runs for those who use a scheduler: calls, tracked asks, observers, binders.

It knows the coordinator only as the reader of the entry.
"""
