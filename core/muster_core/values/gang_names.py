"""Names of gangs: ``namespace/name``, as Kubernetes names objects (RFC 1123)."""

from __future__ import annotations

import re
from typing import Final

from muster_core.values.quantities import shown

DEFAULT_NAMESPACE: Final = "default"
"""The namespace of a gang whose name has none."""

_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE: Final = re.compile(_LABEL)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_OF_LABEL: Final = (
    "lower-case letters, digits and -, with a letter or digit at both ends, at most 63"
)
_OF_NAME: Final = "lower-case letters, digits, - and ., with a letter or digit at both ends"


# GANG-1
def canonical_gang(written: str, namespace: str = DEFAULT_NAMESPACE) -> str:
    """Return the full name of a gang.

    Args:
        written: The name as a user wrote it, with or without its namespace.
        namespace: The namespace if the name has none.

    Raises:
        ValueError: If an object cannot have this name.
    """
    space, slash, name = written.partition("/")
    if not slash:
        space, name = namespace, written
    if not _NAMESPACE.fullmatch(space):
        msg = f"{shown(written)}: the namespace {shown(space)} is no RFC 1123 label: {_OF_LABEL}"
        raise ValueError(msg)
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        long = f", at most {_LONGEST_NAME} of them" if len(name) > _LONGEST_NAME else ""
        msg = f"{shown(written)}: {shown(name)} is no RFC 1123 subdomain: {_OF_NAME}{long}"
        raise ValueError(msg)
    return f"{space}/{name}"
