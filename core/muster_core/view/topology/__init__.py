"""Which node the member of a gang with a topology takes: domains, their order, the chosen one.

What a topology lets a member do on one node is in :mod:`muster_core.view.gangs.standing`. This package
knows nothing of rounds, permits and evictions, which all ask it for nodes.
"""
