"""The accounts of one side of a comparison: asks, jobs, usage and refusals.

They know nothing of the other side.
"""
