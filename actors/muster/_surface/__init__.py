"""The public API of ``muster``, except for its errors.

Programs import every name from ``muster``. This package decides nothing, and does not touch the
state of owners.
"""
