"""Draw the packages of the code, and which imports which, from the imports themselves.

A module that lies directly in the drawn package is drawn like a package. Each is on a floor above
everything that it imports. An arrow is left out where a chain of others connects the two already.
Packages that import one another in a circle are not drawn: :func:`floors` raises.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Final, final

PROJECT: Final = Path(__file__).resolve().parent.parent
ROOTS: Final = (PROJECT / "core", PROJECT / "actors")

# All lengths are in pixels.
LEAST_WIDTH, BOX_WIDTH, BEND_WIDTH, GAP, BETWEEN, MARGIN = 980, 184, 10, 14, 46, 20
TITLE, LINE = 22, 15
CHARACTERS: Final = 26
"""How many characters of what a package is for fit in a line of its box."""

MOST_LINES: Final = 5
"""How many such lines a box has at most."""

STYLE: Final = """\
<style>
rect.page { fill: #fff }
.package rect { fill: #eef3fb; stroke: #36517e; stroke-width: 1.5; rx: 8 }
text { font: 12px sans-serif; fill: #5a6473; text-anchor: middle }
text.name { font: bold 14px sans-serif; fill: #1b2a41 }
path { fill: none; stroke: #8ba0c4; stroke-width: 1.4; marker-end: url(#head) }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill: #8ba0c4; stroke: none"/></marker></defs>"""


@final
@dataclass(frozen=True)
class Plan:
    """A picture.

    Attributes:
        package: The package whose packages are drawn.
        left_out: Packages that are not drawn: what only hands on names, or is a few lines.
        below: Another package that is drawn as one package.
    """

    package: str
    left_out: frozenset[str] = frozenset()
    below: str | None = None


PUBLIC_CORE: Final = frozenset(
    {"decisions", "errors", "events", "reasons", "resources", "snapshots"}
)
SINGLE_MODULES: Final = frozenset(
    {
        *("__main__", "_bind_options", "_collector", "_errors", "_gang_runs", "_idle_properties"),
        *("_keeper", "_leases", "_pod_identity", "_pure", "_version", "_yaml"),
    }
)
PLANS: Final[Mapping[str, Plan]] = {
    "packages.svg": Plan("muster", SINGLE_MODULES, "muster_core"),
    "packages-core.svg": Plan("muster_core", PUBLIC_CORE | {"enumerations"}),
    "packages-view.svg": Plan("muster_core.view"),
}


def folder(package: str) -> Path:
    """Find the folder of a package."""
    path = Path(*package.split("."))
    return next(root / path for root in ROOTS if (root / path).is_dir())


@cache
def modules(package: str) -> Mapping[str, Path]:
    """Find the modules of a package, by their full names."""
    root = folder(package)
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join([package, *(part for part in parts if part != "__init__")])
        found[name] = path
    return found


@cache
def imported(path: Path) -> Sequence[str]:
    """Return the full names that a module imports; of names out of a module, with the module."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return found


def imports(plan: Plan) -> dict[str, set[str]]:
    """Return the imports of each package of a plan."""

    def package_of(name: str) -> str | None:
        if plan.below is not None and f"{name}.".startswith(f"{plan.below}."):
            return plan.below
        if not name.startswith(f"{plan.package}."):
            return None
        package = name.removeprefix(f"{plan.package}.").partition(".")[0]
        known = package in plan.left_out or f"{plan.package}.{package}" not in modules(plan.package)
        return None if known else package

    found: dict[str, set[str]] = {}
    for name, path in modules(plan.package).items():
        package = package_of(name)
        if package is None:
            continue
        below = found.setdefault(package, set())
        for other in map(package_of, imported(path)):
            if other is not None and other != package:
                below.add(other)
    if plan.below is not None:
        found[plan.below] = set()
    return found


def floors(packages: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the floor of each package, 0 for those that import no other.

    Raises:
        ValueError: If packages import one another in a circle.
    """
    found: dict[str, int] = {}

    def floor_of(package: str, above: tuple[str, ...]) -> int:
        if package in above:
            circle = " -> ".join([*above[above.index(package) :], package])
            raise ValueError(f"packages import one another: {circle}")
        if package not in found:
            below = (floor_of(other, (*above, package)) + 1 for other in sorted(packages[package]))
            found[package] = max(below, default=0)
        return found[package]

    for package in sorted(packages):
        floor_of(package, ())
    return found


def needed(packages: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Leave out the arrows that a longer way replaces."""

    def reached(package: str) -> set[str]:
        return packages[package].union(*map(reached, packages[package]))

    return {
        package: below - set().union(*map(reached, below)) if below else set[str]()
        for package, below in packages.items()
    }


def purpose(plan: Plan, package: str) -> list[str]:
    """Return the first sentence of a docstring in lines that fit into a box.

    The name of the package and markup are left out, and so are ids of rules.

    Raises:
        ValueError: If it is too long for a box.
    """
    name = package if package == plan.below else f"{plan.package}.{package}"
    path = modules(name)[name] if package == plan.below else modules(plan.package)[name]
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    first = re.sub(r":\w+:|[`()]|\b[A-Z]+-[0-9]+( to [A-Z]+-[0-9]+)?", "", first).strip()
    before, colon, after = first.partition(": ")
    if colon and " " not in before:
        first = after[:1].upper() + after[1:]
    lines = wrap(first, CHARACTERS)
    if len(lines) > MOST_LINES:
        raise ValueError(f"{path}: the first sentence is too long for its box: {first!r}")
    return lines


@final
@dataclass(frozen=True)
class Bend:
    """Where an arrow passes a floor on its way.

    Attributes:
        source: The package that it leaves.
        target: The package that it enters.
        floor: The floor that it passes.
    """

    source: str
    target: str
    floor: int


Place = str | Bend
"""What takes package on a floor."""


def ways(packages: Mapping[str, set[str]]) -> list[list[Place]]:
    """Return each arrow that is drawn as the places that it goes through."""
    floor = floors(packages)
    found: list[list[Place]] = []
    for package, below in sorted(needed(packages).items()):
        for other in sorted(below):
            between = range(floor[package] - 1, floor[other], -1)
            found.append([package, *(Bend(package, other, at) for at in between), other])
    return found


def in_rows(packages: Mapping[str, set[str]]) -> list[list[Place]]:
    """Return the places on each floor from the top down, each near those above it."""
    floor = floors(packages)
    top = max(floor.values())
    rows: list[list[Place]] = [[] for _ in range(top + 1)]
    above: dict[Place, list[Place]] = {package: [] for package in packages}
    for package in sorted(packages):
        rows[top - floor[package]].append(package)
    for way in ways(packages):
        for upper, lower in pairwise(way):
            above.setdefault(lower, []).append(upper)
            if isinstance(lower, Bend):
                rows[top - lower.floor].append(lower)
    place: dict[Place, float] = {}
    for row in rows:
        middles = {
            one: sum(place[other] for other in above[one]) / len(above[one])
            for one in row
            if above[one]
        }
        row.sort(key=lambda one: (middles.get(one, 0.5), str(one)))
        place.update((one, (at + 0.5) / len(row)) for at, one in enumerate(row))
    return rows


def width_of(place: Place) -> int:
    """Return the width of a place."""
    return BOX_WIDTH if isinstance(place, str) else BEND_WIDTH


def width_of_row(row: list[Place]) -> int:
    """Return the width of a floor."""
    return sum(map(width_of, row)) + (len(row) - 1) * GAP


def left_edges(rows: list[list[Place]], width: int) -> dict[Place, float]:
    """Return the left edge of each place in a picture; every floor is centred."""
    found: dict[Place, float] = {}
    for row in rows:
        left = (width - width_of_row(row)) / 2
        for one in row:
            found[one] = left
            left += width_of(one) + GAP
    return found


def ports(ways_: list[list[Place]], left: Mapping[Place, float], *, leaving: bool) -> list[float]:
    """Return the position along its box where each arrow leaves a package, or enters one."""
    end, next_to_it = (0, 1) if leaving else (-1, -2)
    found: list[float] = []
    for way in ways_:
        package = way[end]
        alike = sorted(
            (other for other in ways_ if other[end] == package),
            key=lambda other: (left[other[next_to_it]], str(other)),
        )
        found.append(left[package] + BOX_WIDTH * (alike.index(way) + 1) / (len(alike) + 1))
    return found


def curve(points: list[tuple[float, float]]) -> str:
    """Draw an arrow through points, upright at each of them."""
    parts = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (to_y - y) / 2
        parts.append(f"C{x:g} {y + half:g} {to_x:g} {to_y - half:g} {to_x:g} {to_y:g}")
    return f'<path d="{" ".join(parts)}"/>'


def picture(plan: Plan) -> str:
    """Draw a plan.

    Raises:
        ValueError: If packages import one another in a circle.
    """
    packages = imports(plan)
    rows = in_rows(packages)
    texts = {package: purpose(plan, package) for package in packages}
    height = {package: TITLE + LINE * len(text) + 14 for package, text in texts.items()}
    width = max(LEAST_WIDTH, 2 * MARGIN + max(map(width_of_row, rows)))
    left, top = left_edges(rows, width), dict[Place, float]()
    bottom, down = dict[Place, float](), float(MARGIN)
    for row in rows:
        deepest = max(height[one] for one in row if isinstance(one, str))
        for one in row:
            top[one] = down
            bottom[one] = down + (height[one] if isinstance(one, str) else deepest)
        down += deepest + BETWEEN
    whole = down - BETWEEN + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole:g}" width="{width}">',
        STYLE,
        f'<rect class="page" width="{width}" height="{whole:g}"/>',
    ]
    found = ways(packages)
    leaves, enters = ports(found, left, leaving=True), ports(found, left, leaving=False)
    for way, leave, enter in zip(found, leaves, enters, strict=True):
        points = [(leave, bottom[way[0]])]
        for bend in way[1:-1]:
            middle = left[bend] + BEND_WIDTH / 2
            points += [(middle, top[bend]), (middle, bottom[bend])]
        parts.append(curve([*points, (enter, top[way[-1]])]))
    parts += [
        box(package, texts[package], left[package], top[package], height[package])
        for package in packages
    ]
    return "\n".join([*parts, "</svg>", ""])


def box(name: str, lines: list[str], left: float, top: float, height: int) -> str:
    """Draw a package."""
    middle = left + BOX_WIDTH / 2
    text = "".join(
        f'<text x="{middle:g}" y="{top + TITLE + LINE * number:g}">{escape(line)}</text>'
        for number, line in enumerate(lines, 1)
    )
    return (
        f'<g class="package"><rect x="{left:g}" y="{top:g}" width="{BOX_WIDTH}" height="{height}"/>'
        f'<text class="name" x="{middle:g}" y="{top + TITLE:g}">{escape(name)}</text>{text}</g>'
    )
