"""The runtime: the tasks that own state, their mailboxes, and the coordinators of batches.

It decides nothing about scheduling, and knows neither handles nor feeds.
"""
