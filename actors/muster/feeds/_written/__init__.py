"""Writing typed events in the form of a feed: what is read again means the same.

They know what a feed looks like, and nothing of what an event does.
"""
