"""Data structures and arithmetic that several packages of the core use.

They know values, and nothing of queues, applications or rounds.
"""
