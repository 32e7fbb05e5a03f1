"""The tree as a round sees it: queues, leaves and applications, each with its order.

It knows nothing of gangs except the members that an application offers, and nothing of evictions.
"""
