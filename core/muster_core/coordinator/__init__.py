"""The machine of the coordinator: a batch from its input to the announced decisions.

It puts the other rooms together; none of them knows it.
"""
