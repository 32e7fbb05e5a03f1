"""The tree as a round sees it: queues, leaves and applications, each with its order.

It knows no gangs but the members that an application offers, and no evictions.
"""
