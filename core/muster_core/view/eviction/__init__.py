"""Evictions: reclaim and preemption, from the preemptor to its victims.

It runs between rounds and knows nothing of their course.
"""
