"""The users' side of a running scheduler: calls, tracked asks, observers and binders.

It knows the coordinator only as the reader of the entry.
"""
