"""Warnings about what a feed says, found while it is read. They know nothing of what is decided."""
