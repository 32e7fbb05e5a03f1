"""The state machine of the coordinator: a batch from its input to the announced decisions.

It combines the other packages of the core; none of them knows it.
"""
