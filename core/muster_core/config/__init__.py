"""Configurations: parsing, checks, defaults and inheritance.

It knows the values, and nothing of owners, nodes or rounds.
"""

from __future__ import annotations

from muster_core.config.loader import default_configuration, load_configuration
from muster_core.config.users import admits, has_acl

__all__ = ["admits", "default_configuration", "has_acl", "load_configuration"]
