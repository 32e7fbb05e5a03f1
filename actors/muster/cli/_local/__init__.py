"""Commands that run on this machine: the options of ``muster serve`` for them, and their output.

``muster serve`` and the main command use it; it knows nothing of what they do besides.
"""
