"""``--run local``: the commands of asks run on this machine, and outlive the service.

The *keeper* of a job is a small process of its own: it starts the command, writes its output and
how it ended, and ends it on request. It does not depend on the service, which may end, be
killed and start again meanwhile. The two communicate by the *record* of the job, a folder below the
state directory.

``keeper`` runs alone and knows nothing of the others; ``jobs`` starts, follows and ends jobs by
their records, and knows the files with what they wrote; ``binder`` does the work of allocations
with both.
"""
