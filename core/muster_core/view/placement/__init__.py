"""The steps that place asks on nodes and release them; all decisions use them.

``rounds``, ``permits`` and ``eviction`` decide which ask gets which node.
"""
