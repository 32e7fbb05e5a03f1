"""``--run ray``: the commands of asks run on a cluster of Ray.

``link`` keeps the connection, also when Ray cannot be reached at the start; ``binder`` runs
commands through it, and knows where their output is. How Ray itself is spoken to is none of its
business: :mod:`muster.ray` knows.
"""
