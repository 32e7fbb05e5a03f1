"""Values: events, configurations, decisions and snapshots, and the types that they consist of.

They hold no state and know no state machine. The only other package of the core that they import
is ``gangs``.
"""
