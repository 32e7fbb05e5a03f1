"""Messages between the owners of state: one closed union for each receiver.

All are frozen. The coordinator talks to applications, queues and gangs directly; what they have
to say travels upward, from child to parent, as reports.
"""
