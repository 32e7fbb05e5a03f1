"""The state of the view, and how the owners' reports keep it up to date.

Nothing is decided here.
"""
