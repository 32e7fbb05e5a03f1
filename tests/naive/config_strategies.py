"""Hypothesis strategies for configurations: small trees in which much collides.

A tree is drawn as loose numbers first and then mended to keep the rules that the
loader checks, because filtering would throw most of them away. The names of queues
come from their places, so that two trees of one scenario share names and one can
vanish, come back, or change between leaf and parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import (
    Acl,
    Configuration,
    Limits,
    NodeSortPolicy,
    QueueConfig,
    Settings,
    Template,
)
from muster_core.resources import Resources
from tests.naive.choices import Choices, drawn
from tests.naive.properties import resolve
from tests.naive.theme import TYPES, Theme

CHILD_NAMES: Final = ("a", "a-1", "b")
MAX_DEPTH: Final = 4
_ACLS: Final = (
    *(None,) * 5,
    Acl(everybody=True),
    Acl(users=frozenset({"u1"})),
    Acl(groups=frozenset({"g1"})),
)
_EMPTY_TEMPLATE: Final = Template(Resources(), Limits(), 0, ())
_QUEUE_BYTES: Final = 40
_LIMITS: Final = (*(None,) * 5, *range(9, -1, -1))
_GUARANTEES: Final = (*(None,) * 5, *range(3, -1, -1))


@attrs.define
class Raw:
    """A queue while it is being drawn."""

    name: str
    says_parent: bool
    properties: dict[str, str]
    guaranteed: dict[str, int]
    limits: dict[str, int]
    max_applications: int
    template: Template | None
    submit_acl: Acl | None
    admin_acl: Acl | None
    children: list[Raw]


def _amounts(choices: Choices, theme: Theme, options: Sequence[int | None]) -> dict[str, int]:
    if choices.one_in(3):
        return {}
    chosen = {name: choices.of(options) for name in theme.types}
    return {name: amount for name, amount in chosen.items() if amount is not None}


def _properties(choices: Choices, theme: Theme) -> dict[str, str]:
    chosen = {name: choices.of(options) for name, options in theme.properties.items()}
    return {name: text for name, text in chosen.items() if text is not None}


def _template(choices: Choices, theme: Theme) -> Template | None:
    if not theme.templates or not choices.one_in(2):
        return None
    limits = _amounts(choices, theme, _LIMITS[1:]) if theme.limits else {}
    guaranteed = _amounts(choices, theme, _GUARANTEES) if theme.guaranteed else {}
    for name in set(limits) & set(guaranteed):
        guaranteed[name] = min(guaranteed[name], limits[name])
    template = Template(
        guaranteed=Resources(guaranteed),
        max=Limits(tuple(sorted(limits.items()))),
        max_applications=choices.of(theme.max_applications),
        properties=tuple(sorted(_properties(choices, theme).items())),
    )
    return None if template == _EMPTY_TEMPLATE else template


@st.composite
def raw_queues(draw: st.DrawFn, theme: Theme, name: str = "root", depth: int = 0) -> Raw:
    """Draw a queue and all below it."""
    choices = draw(drawn(_QUEUE_BYTES))
    width = choices.of(theme.widths[depth])
    is_root = depth == 0
    return Raw(
        name=name,
        says_parent=choices.one_in(5),
        properties=_properties(choices, theme),
        guaranteed=_amounts(choices, theme, theme.guarantees)
        if theme.guaranteed and not is_root
        else {},
        limits=_amounts(choices, theme, _LIMITS) if theme.limits and not is_root else {},
        max_applications=choices.of(theme.max_applications),
        submit_acl=choices.of(_ACLS) if theme.lists else None,
        admin_acl=choices.of(_ACLS) if theme.lists else None,
        template=_template(choices, theme),
        children=[draw(raw_queues(theme, child, depth + 1)) for child in CHILD_NAMES[:width]],
    )


@st.composite
def changed(draw: st.DrawFn, theme: Theme, raw: Raw) -> Raw:
    """Draw a tree that comes from another one by some changes, mostly few."""
    choices = draw(drawn(len(CHILD_NAMES) + 1))
    source = raw
    if choices.one_in(3) and raw.name != "root":
        source = draw(raw_queues(theme, raw.name, MAX_DEPTH))
    kept = [child for child in raw.children if not choices.one_in(5)]
    return attrs.evolve(
        source,
        says_parent=raw.says_parent,
        properties=dict(source.properties),
        guaranteed=dict(source.guaranteed),
        limits=dict(source.limits),
        submit_acl=raw.submit_acl,
        admin_acl=raw.admin_acl,
        children=[draw(changed(theme, child)) for child in kept],
    )


def mend(raw: Raw, limits_above: dict[str, int], applications_above: int) -> dict[str, int]:
    """Make a tree keep the rules of the loader.

    Returns:
        What the queue counts as guaranteed beside its siblings.
    """
    limits = dict(limits_above)
    for name, limit in raw.limits.items():
        raw.limits[name] = limits[name] = min(limit, limits_above.get(name, limit))
    if applications_above:
        own = raw.max_applications or applications_above
        raw.max_applications = min(own, applications_above)
    counted: dict[str, int] = {}
    for child in raw.children:
        for name, value in mend(child, limits, raw.max_applications).items():
            counted[name] = counted.get(name, 0) + value
    for name, value in raw.guaranteed.items():
        if value:
            raw.guaranteed[name] = counted[name] = max(value, counted.get(name, 0))
    for name in [name for name, value in counted.items() if value > limits.get(name, value)]:
        _drop_guaranteed(raw, name)
        del counted[name]
    if raw.template is not None:
        raw.template = _mended_template(raw.template, raw.max_applications)
    return counted


def _drop_guaranteed(raw: Raw, name: str) -> None:
    raw.guaranteed.pop(name, None)
    for child in raw.children:
        _drop_guaranteed(child, name)


def _mended_template(template: Template, applications_above: int) -> Template:
    if not applications_above:
        return template
    own = template.max_applications or applications_above
    return attrs.evolve(template, max_applications=min(own, applications_above))


def built(
    raw: Raw, above: str | None = None, settings_above: Settings | None = None
) -> QueueConfig:
    """Make the typed configuration of a mended tree."""
    path = raw.name if above is None else f"{above}.{raw.name}"
    is_parent = above is None or raw.says_parent or bool(raw.children)
    settings = settings_of(raw.properties, path, settings_above)
    return QueueConfig(
        name=raw.name,
        path=path,
        is_parent=is_parent,
        guaranteed=Resources(raw.guaranteed),
        max=Limits(tuple(sorted(raw.limits.items()))),
        max_applications=raw.max_applications,
        settings=settings,
        own_properties=tuple(sorted(raw.properties.items())),
        template=raw.template,
        submit_acl=raw.submit_acl,
        admin_acl=raw.admin_acl,
        children=tuple(built(child, path, settings) for child in raw.children),
    )


def settings_of(texts: Mapping[str, str], path: str, above: Settings | None) -> Settings:
    """Give the settings of a queue that says something; not what does nothing there."""
    settings = resolve(texts, above)
    if path == "root":
        settings = attrs.evolve(settings, fence=False, offset=0)
    return settings


@st.composite
def partitions(draw: st.DrawFn, raw: Raw) -> Configuration:
    """Draw the settings of the partition around a tree."""
    mend(raw, {}, 0)
    choices = draw(drawn(6))
    weights: dict[str, float] = {"memory": 1.0, "vcore": 1.0}
    if choices.one_in(2):
        options = (None, 1.0, 0.1, 3.0, 0.0)
        chosen = {name: choices.of(options) for name in TYPES}
        weights = {name: weight for name, weight in chosen.items() if weight is not None}
    return Configuration(
        partition="default",
        root=built(raw),
        node_sort=choices.of((NodeSortPolicy.FAIR, NodeSortPolicy.BINPACKING)),
        node_weights=tuple(sorted(weights.items())),
        warnings=choices.of(((), (), ("a warning", "and another"))),
    )


@st.composite
def configurations(draw: st.DrawFn, theme: Theme) -> list[Configuration]:
    """Draw the configurations of one scenario: one, and some that it turns into."""
    choices = draw(drawn(3))
    raw = draw(raw_queues(theme))
    raws = [raw]
    for _ in range(choices.of((0, 1, 2)) if "configure" in theme.kinds else 0):
        how = changed(theme, raw) if choices.of((True, True, False)) else raw_queues(theme)
        raws += [draw(how)]
    return [draw(partitions(one)) for one in raws]


def paths(config: QueueConfig) -> list[str]:
    """Give the paths of a queue and all below it."""
    return [config.path, *(path for child in config.children for path in paths(child))]
