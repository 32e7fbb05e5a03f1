"""The configuration: edited, checked while one types, compared with history, and applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, final

import yaml
from starlette.responses import Response

from muster.figures.text import MINUS, NOTHING, duration, parse_iso_date, percent, points
from muster.service.access import Role
from muster.service.api.config import preview_configuration
from muster.service.input.configuration import (
    ConfigOrigin,
    ConfigurationView,
    configuration_view as as_shown,
    difference_of,
    in_force,
    put_in_force,
    read_configuration,
    warnings_of,
)
from muster.service.input.dry_runs import history_start
from muster.service.page.actions import DecisionPreview
from muster.service.page.renderer import TemplateData, render_page
from muster.service.page.requests import Form, Page, PageRequest
from muster.service.payloads import Problem
from muster.service.queries.reader import ReadContext
from muster_core.config.model import Configuration
from muster_core.structures.steps import Steps


# PAGE-54
def queue_lines_of(path: str, text: str) -> TemplateData | None:
    """Return the lines of a queue, or of the nearest queue above it that the text has.

    Args:
        path: The path of the queue, in lower case.
        text: A configuration as YAML in block style, with one partition.

    Returns:
        The lines; None if the text has not even its root.
    """
    found: TemplateData | None = None
    for partition in _items(yaml.compose(text), "partitions"):
        below, wanted = _items(partition, "queues"), path.split(".")
        for depth, name in enumerate(wanted, start=1):
            node = next((one for one in below if _name(one) == name), None)
            if node is None:
                break
            first, last = node.start_mark.line + 1, node.end_mark.line
            found = {"queue": ".".join(wanted[:depth]), "first": first, "last": last}
            below = _items(node, "queues")
    return found


def _items(node: yaml.Node | None, field: str) -> Iterator[yaml.Node]:
    """Yield the items of a list in a field of a map."""
    value = _field(node, field)
    if isinstance(value, yaml.SequenceNode):
        yield from value.value


def _name(node: yaml.Node) -> str | None:
    value = _field(node, "name")
    return value.value.lower() if isinstance(value, yaml.ScalarNode) else None


def _field(node: yaml.Node | None, field: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == field), None)


_MICROSECONDS: Final = 1e6

_Writer = Callable[[float], str]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _time(value: float) -> str:
    return duration(value * _MICROSECONDS)


_FIGURES: Final[Sequence[tuple[str, tuple[str, ...], _Writer]]] = (
    ("asks bound", ("asks_bound",), _count),
    ("asks ended without a node", ("asks_unbound",), _count),
    ("asks pending at the end", ("asks_pending",), _count),
    ("asks preempted", ("asks_preempted",), _count),
    ("asks reclaimed", ("asks_reclaimed",), _count),
    ("median wait", ("wait", "median_s"), _time),
    ("95 % waited at most", ("wait", "p95_s"), _time),
    ("longest wait", ("wait", "longest_s"), _time),
)
"""What is shown of each side: its name, where it is in the result, and how it is written."""


@final
class ComparisonTable:
    """The result of a comparison, as the API gives it.

    Args:
        found: The result.
        asked_us: How far the comparison should look back, in microseconds.

    Attributes:
        since: From when on history was compared, as a date in UTC.
        until: Until when, likewise.
        length_us: How long that is, in microseconds.
        is_short: Whether less history is kept than that.
        is_same: Whether both sides decide the same.
        decisions: How many decisions are the same before the first that differs.
    """

    def __init__(self, found: Mapping[str, Any], asked_us: int) -> None:
        self._found = found
        self.since: str = found["since"]
        self.until: str = found["until"]
        self.length_us = parse_iso_date(self.until) - parse_iso_date(self.since)
        # It begins with a whole batch, so that it may be longer by a while.
        self.is_short = self.length_us < asked_us
        self.is_same: bool = found["same"]
        self.decisions: int = found["decisions"]

    def whole(self) -> list[TemplateData]:
        """Return the figures of the whole, with the utilisation by resource type."""
        both = self._found["all"]
        rows = [*_rows(both)]
        for kind in sorted({**both["a"]["utilisation"], **both["b"]["utilisation"]}):
            a, b = both["a"]["utilisation"].get(kind), both["b"]["utilisation"].get(kind)
            rows.append(_row(f"{kind} used, on average", a, b, percent, points))
        return rows

    def queues(self) -> Iterator[tuple[str, list[TemplateData]]]:
        """Yield the queues for which something differs, with the figures that do."""
        for queue in self._found["queues"]:
            rows = [row for row in _rows(queue) if not row["is_same"]]
            if rows:
                yield queue["queue"], rows

    def refused(self) -> list[str]:
        """Return why events of history would be refused with the new configuration only."""
        return [str(one["message"]) for one in self._found["refused"]["first_b"]]

    def refused_count(self) -> int:
        """Return how many events of history would be refused with the new configuration only."""
        count: int = self._found["refused"]["only_b"]
        return count


def _rows(both: Mapping[str, Any]) -> Iterator[TemplateData]:
    for name, path, write in _FIGURES:
        yield _row(name, _at(both["a"], path), _at(both["b"], path), write)


def _at(figures: Any, path: Sequence[str]) -> float | None:  # noqa: ANN401 - a tree of JSON
    for name in path:
        figures = None if figures is None else figures[name]
    value: float | None = figures
    return value


def _row(
    name: str, a: float | None, b: float | None, write: _Writer, by: _Writer | None = None
) -> TemplateData:
    """Return a row.

    Args:
        name: What it is.
        a: As it was; None if there is nothing.
        b: As it would have been, likewise.
        write: Writes a value.
        by: Writes a difference; None for ``write``.
    """
    change = ""
    if a is not None and b is not None and a != b:
        sign = "+" if b > a else MINUS
        change = f"{sign}{(by or write)(abs(b - a))}"
    return {
        "name": name,
        "before": _text(a, write),
        "after": _text(b, write),
        "change": change,
        "is_same": a == b,
    }


def _text(value: float | None, write: _Writer) -> str:
    return NOTHING if value is None else write(value)


SPANS: Final = (("1d", "last day"), ("7d", "last week"), ("30d", "last 30 days"))
"""How far one may look back: as the API has it, and in words."""

_USUAL: Final = "7d"


# PAGE-50
async def _edit(page: PageRequest) -> Response:
    """Show the configuration of a moment, to be edited if that is now."""

    def read(context: ReadContext) -> Steps[Configuration]:
        yield
        return context.machine.configuration

    found = await page.moment.read(read)
    config, wanted = as_shown(found.value), page.text("queue").lower()
    return render_page(
        page,
        "config.html",
        found=found,
        config=config,
        wanted=wanted,
        lines=queue_lines_of(wanted, config.as_yaml()) if wanted else None,
        warnings=warnings_of(found.value),
        spans=SPANS,
        usual=_USUAL,
        may_apply=page.who.role >= Role.ADMIN and not page.moment.is_past,
        is_kept=page.service.options.state is not None,
        origin=None if page.moment.is_past else _origin(page, found.value),
    )


# PAGE-53
async def _state(page: PageRequest) -> Response:
    """Show whether another configuration is in force than the one that the page has loaded."""
    before = await in_force(page.service)
    return render_page(page, "config_state.html", is_seen=page.text("seen") == before.checksum)


# PAGE-51
async def _check(page: PageRequest) -> Response:
    """Show what is wrong with a configuration, or how it differs from the one in force."""
    form = await page.form()
    before = await in_force(page.service)
    values: dict[str, Any] = {"problems": [], "warnings": [], "difference": None}
    try:
        new = _read(page, form)
    except Problem as problem:
        if problem.status != 422:
            raise
        values["problems"] = problem.members["problems"]
    else:
        values["warnings"] = warnings_of(new)
        values["difference"] = difference_of(before.configuration, new)
    is_seen = form.text("seen") == before.checksum
    return render_page(page, "config_checked.html", is_seen=is_seen, **values)


# PAGE-52
async def _compare(page: PageRequest) -> Response:
    """Show what a configuration would lead to now, and would have changed in the kept history."""
    form = await page.form()
    new, written = _read(page, form), form.text("since")
    if written not in {name for name, _ in SPANS}:
        raise Problem(400, f"since: {written[:100]!r}: must be one of {[one for one, _ in SPANS]}")
    since = history_start(written) if page.service.options.state is not None else None
    found = await preview_configuration(page.service, page.request, new, since)
    history = None
    if since is not None and since.back_us is not None and found["compared"] is not None:
        history = ComparisonTable(found["compared"], since.back_us)
    return render_page(
        page,
        "config_compared.html",
        following=await DecisionPreview.of(page, found["decisions"]),
        history=history,
        wanted=dict(SPANS)[written],
    )


# PAGE-53
async def _apply(page: PageRequest) -> Response:
    """Put a configuration in force, if the one that its author has seen still is."""
    form = await page.form()
    before = await in_force(page.service)
    if form.text("seen") != before.checksum:
        message = "another configuration came into force meanwhile: load the page again, and look"
        raise Problem(412, message)
    new = _read(page, form)
    entered = await put_in_force(page.service, new, before.configuration)
    after: ConfigurationView = as_shown(new)
    origin = _origin(page, new)
    return render_page(page, "config_applied.html", batch=entered.batch, after=after, origin=origin)


# ACCESS-41
def _origin(page: PageRequest, configuration: Configuration) -> ConfigOrigin:
    return page.service.config_origin(configuration)


def _read(page: PageRequest, form: Form) -> Configuration:
    return read_configuration(form.text("text").encode(), page.service.options.partition)


CONFIGURATION_PAGES: Final = (
    Page("GET", "/config", Role.READER, _edit),
    Page("GET", "/config/state", Role.READER, _state),
    Page("POST", "/config/check", Role.READER, _check),
    Page("POST", "/config/compare", Role.ADMIN, _compare),
    Page("POST", "/config/apply", Role.ADMIN, _apply),
)
"""The configuration."""
