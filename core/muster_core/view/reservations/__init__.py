"""Reservations of a backfill scope: who gets which nodes, from when on, and who would delay that.

It looks ahead on projections, which are views of what the nodes and quotas would be; the view
itself is only read. It knows nothing of rounds and permits, which ask it and carry out what it
finds.
"""
