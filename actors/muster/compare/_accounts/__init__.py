"""The accounts of the sides of a comparison: asks, jobs, usage and refusals.

They do not know whether a side is a feed or a decision log.
"""
