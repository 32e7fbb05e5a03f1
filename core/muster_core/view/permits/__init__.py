"""What a round does with gangs: permits, activation, rollback and deadlocks.

It knows nothing of evictions.
"""
