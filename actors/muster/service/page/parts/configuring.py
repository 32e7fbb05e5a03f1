"""The configuration: edited, checked while one types, compared with history, and applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from muster.service.access.who import Role
from muster.service.api.previewing import previewed
from muster.service.input.configuring import (
    InForce,
    in_force,
    put_in_force,
    read_configuration,
    shown as as_shown,
    warnings_of,
)
from muster.service.input.differing import difference_of
from muster.service.input.looking_back import since_of
from muster.service.page.parts.comparing import Compared
from muster.service.page.parts.following import Following
from muster.service.page.parts.queue_lines import lines_of
from muster.service.page.rendering import shown
from muster.service.page.viewed import Form, Page, Viewed
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.config_file import Origin
    from muster.service.reading.looking import Looking
    from muster_core.config.model import Configuration
    from muster_core.structures.steps import Steps

SPANS: Final = (("1d", "last day"), ("7d", "last week"), ("30d", "last 30 days"))
"""How far one may look back: as the API has it, and in words."""

_USUAL: Final = "7d"


# PAGE-50
async def _edit(viewed: Viewed) -> Response:
    """Show the configuration of a moment, to be edited if that is now."""

    def read(looking: Looking) -> Steps[Configuration]:
        yield
        return looking.machine.configuration

    found = await viewed.moment.seen(read)
    config, wanted = as_shown(found.value), viewed.text("queue").lower()
    return shown(
        viewed,
        "config.html",
        found=found,
        config=config,
        wanted=wanted,
        lines=lines_of(wanted, config.as_yaml()) if wanted else None,
        warnings=warnings_of(found.value),
        spans=SPANS,
        usual=_USUAL,
        may_apply=viewed.who.role >= Role.ADMIN and not viewed.moment.is_past,
        is_kept=viewed.service.options.state is not None,
        origin=None if viewed.moment.is_past else _origin(viewed, found.value),
    )


# PAGE-53
async def _state(viewed: Viewed) -> Response:
    """Say whether another configuration is in force than the one that somebody has seen."""
    before = await in_force(viewed.service)
    return shown(viewed, "config_state.html", is_seen=viewed.text("seen") == before.checksum)


# PAGE-51
async def _check(viewed: Viewed) -> Response:
    """Say what is wrong with a configuration, or how it differs from the one in force."""
    form = await viewed.form()
    before = await in_force(viewed.service)
    context: dict[str, Any] = {"problems": [], "warnings": [], "difference": None}
    try:
        new = _read(viewed, form)
    except Problem as problem:
        if problem.status != 422:
            raise
        context["problems"] = problem.members["problems"]
    else:
        context["warnings"] = warnings_of(new)
        context["difference"] = difference_of(before.configuration, new)
    is_seen = form.text("seen") == before.checksum
    return shown(viewed, "config_checked.html", is_seen=is_seen, **context)


# PAGE-52
async def _compare(viewed: Viewed) -> Response:
    """Say what a configuration would lead to now, and would have changed in the kept history."""
    form = await viewed.form()
    new, written = _read(viewed, form), form.text("since")
    if written not in {name for name, _ in SPANS}:
        raise Problem(400, f"since: {written[:100]!r}: must be one of {[one for one, _ in SPANS]}")
    since = since_of(written) if viewed.service.options.state is not None else None
    found = await previewed(viewed.service, viewed.request, new, since)
    history = None
    if since is not None and since.back_us is not None and found["compared"] is not None:
        history = Compared(found["compared"], since.back_us)
    return shown(
        viewed,
        "config_compared.html",
        following=await Following.of(viewed, found["decisions"]),
        history=history,
        wanted=dict(SPANS)[written],
    )


# PAGE-53
async def _apply(viewed: Viewed) -> Response:
    """Put a configuration in force, if the one that its author has seen still is."""
    form = await viewed.form()
    before = await in_force(viewed.service)
    if form.text("seen") != before.checksum:
        told = "another configuration came into force meanwhile: load the page again, and look"
        raise Problem(412, told)
    new = _read(viewed, form)
    entered = await put_in_force(viewed.service, new, before.configuration)
    after: InForce = as_shown(new)
    origin = _origin(viewed, new)
    return shown(viewed, "config_applied.html", batch=entered.batch, after=after, origin=origin)


# ACCESS-41
def _origin(viewed: Viewed, configuration: Configuration) -> Origin:
    service = viewed.service
    return service.config_file.origin_of(configuration, service.configured_us())


def _read(viewed: Viewed, form: Form) -> Configuration:
    return read_configuration(form.text("text").encode(), viewed.service.options.partition)


PAGES: Final = (
    Page("GET", "/config", Role.READER, _edit),
    Page("GET", "/config/state", Role.READER, _state),
    Page("POST", "/config/check", Role.READER, _check),
    Page("POST", "/config/compare", Role.ADMIN, _compare),
    Page("POST", "/config/apply", Role.ADMIN, _apply),
)
"""The configuration."""
