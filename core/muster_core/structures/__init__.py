"""Data structures and arithmetic that several rooms decide with.

They know values, and nothing of queues, applications or rounds.
"""
