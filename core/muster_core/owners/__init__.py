"""The machines of those who own state (applications, queues, gangs), and their messages.

Each machine changes its own state in ``handle`` and knows of others only what messages say.
None knows the decision view or how batches are run.
"""
