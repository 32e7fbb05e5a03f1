"""Reading of the order of nodes: its type, its weights and its typical asks.

They do not know queues.
"""
