"""The state machines of the owners (applications, queues, gangs), and their messages.

Each machine changes only its own state, in ``handle``, and knows others only from messages. None
of them knows the decision view or how batches run.
"""
