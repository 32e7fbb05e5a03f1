"""Values: what comes in, what is decided, and what both are made of.

They know no machine and hold no state. Nothing here imports another room but the definition
of gangs.
"""
