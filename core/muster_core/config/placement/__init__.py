"""Placement rules as they are written: reading them, their filters, and the fixed paths of queues.

It knows the fields of a configuration, and nothing of the queues and applications that exist.
"""

from __future__ import annotations
