"""What a round does with gangs: permits, activation, rollback and deadlocks.

A permit is the leave of a gang's waiting members to be bound. The end of a wait is an event, which
``admission`` handles. This package knows nothing of evictions.
"""
