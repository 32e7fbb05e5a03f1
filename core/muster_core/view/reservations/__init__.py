"""Reservations of a backfill scope: asks, their nodes and starts, and the asks that would delay them.

It looks ahead on projections, which are views of what the nodes and quotas would be; the view
itself is only read. It knows nothing of rounds and permits, which ask it and carry out what it
finds.
"""
