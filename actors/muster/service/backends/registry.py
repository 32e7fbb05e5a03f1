"""The backends: each is an entry here, and a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from muster.service.backends.kubernetes import KubernetesOptions
from muster.service.backends.local import LocalOptions
from muster.service.backends.ray import RayOptions
from muster.service.backends.slurm import SlurmOptions

if TYPE_CHECKING:
    from muster.service.options import BackendOptions, ServeOptions


BACKENDS: Final[Mapping[str, type[BackendOptions]]] = {
    one.run: one for one in (LocalOptions, RayOptions, SlurmOptions, KubernetesOptions)
}
"""The options of each backend, by the value of ``--run``."""


def any_of(backends: Iterable[type[BackendOptions]]) -> str:
    """Return the names of backends in words: ``local, ray or slurm``."""
    *names, last = (one.run for one in backends)
    return f"{', '.join(names)} or {last}" if names else last


# RAY-3, SLURM-3, LOCAL-20, LOCAL-21
def backend_problems(options: ServeOptions) -> Iterator[str]:
    """Yield what is wrong with the options about what runs commands."""
    every, backend = BACKENDS.values(), options.backend
    if backend is not None:
        if options.is_open:
            yield from backend.open_problems(options)
        yield from backend.problems(options)
    else:
        if options.run_as:
            names = any_of(one for one in every if one.takes_accounts)
            yield f"--run-as needs --run {names}: otherwise no command runs"
        if options.trust_submitters:
            names = any_of(one for one in every if one.runs_commands)
            yield f"--trust-submitters needs --run {names}: otherwise no command runs"
    if options.trust_local and not options.is_open:
        names = any_of(one for one in every if one.runs_as_service)
        yield f"--trust-local needs --run {names} without --tokens: otherwise it means nothing"
    for other in options.unused:
        for flag in other.given():
            yield f"{flag} needs --run {other.run}: with --run {options.run} it means nothing"
