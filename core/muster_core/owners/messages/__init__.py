"""Messages between the coordinator and the owners: one closed union for each receiver.

All messages are frozen. The coordinator sends to applications, queues and gangs directly; the
reports of applications and queues go upward, from child to parent.
"""
