"""Fields that YuniKorn obeys and Muster does not: their form is checked, with one warning each.

CONFIG-15, CONFIG-16: ``usergroupresolver``, ``checksum`` and
``preemption.quotapreemptionenabled``. An empty field has no warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.config.document import Scalar

if TYPE_CHECKING:
    from muster_core.config.fields import Field

# CONFIG-16
RESOLVER_FIELDS: Final = ("type",)


# CONFIG-15
def warn_not_obeyed(field: Field, name: str) -> None:
    """Warn that a field has no effect."""
    field.warn(f"{name}: checked for form, but not obeyed", once=f"field {name}")


def read_resolver(field: Field) -> None:
    """Check a ``usergroupresolver``: a text, or a map with its ``type``."""
    if field.is_null:
        return
    if not isinstance(field.node, Scalar):
        _read_text(field.fields(RESOLVER_FIELDS), "type")
    warn_not_obeyed(field, "usergroupresolver")


def read_checksum(field: Field) -> None:
    """Check the ``checksum`` of a file."""
    if not field.is_null and field.text():
        warn_not_obeyed(field, "checksum")


def read_quota_preemption(field: Field) -> None:
    """Check ``preemption.quotapreemptionenabled``."""
    if not field.is_null:
        field.boolean(default=False)
        warn_not_obeyed(field, "preemption.quotapreemptionenabled")


def _read_text(fields: dict[str, Field], name: str) -> None:
    """Check that a field is a text, if it is present."""
    if name in fields:
        fields[name].text()
