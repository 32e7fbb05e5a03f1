"""What gangs are: their definition, their states, and the groups that they form by name.

Nothing here knows members, nodes or queues, or imports another package.
"""
