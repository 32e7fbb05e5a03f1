"""What can be said of an ask besides its name and what it needs: written down once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict


class AskOptions(TypedDict, total=False):
    """What can be said of an ask. Each may be left out, and None is the same.

    Attributes:
        priority: Its priority; default 0.
        priority_class: The class that its priority comes from.
        gang: The gang whose member it is.
        annotations: Those that speak of its gang.
        node: The only node on which it may run.
        selector: Attributes that its node must have.
        run_for: It completes by itself this long after it was bound, in seconds or as a
            duration such as ``1m30s``.
    """

    priority: int | None
    priority_class: str | None
    gang: str | None
    annotations: Mapping[str, str] | None
    node: str | None
    selector: Mapping[str, str] | None
    run_for: float | str | None


_NAMES: Final = tuple(AskOptions.__annotations__)


def check_options(method: str, options: Mapping[str, object]) -> None:
    """Refuse what is no option, as Python does where options stand in the signature.

    Args:
        method: Who was called.
        options: What the caller has said.

    Raises:
        TypeError: If one of them is unknown.
    """
    for name in options:
        if name not in _NAMES:
            msg = (
                f"{method}() got an unexpected keyword argument {name!r}; "
                f"options of an ask are {', '.join(_NAMES)}"
            )
            raise TypeError(msg)
