"""Draw random feeds of all themes, and write them as files::

    python -m tests.same.inputs FOLDER FEEDS JOBS

They are drawn from fixed seeds by the generators of ``tests/fuzz/themes.py``, as they are in this tree.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed as seeded, settings

from muster.feeds import write_event
from muster_core.events import Configure
from tests.fuzz.themes import THEMES
from tests.naive.harness import Marker, Step
from tests.naive.strategies import written

MOST_AT_ONCE: Final = 100
"""How many feeds are drawn from a seed."""


def draw(folder: Path, wanted: tuple[str, int]) -> None:
    """Write so many different feeds of a theme."""
    theme, count = wanted
    found: dict[str, str] = {}
    for seed in range(1, 1_000):
        for steps in drawn(theme, seed, min(MOST_AT_ONCE, (count - len(found)) * 11 // 10 + 1)):
            text = "".join(f"{json.dumps(line)}\n" for line in lines(steps))
            found.setdefault(hashlib.sha256(text.encode()).hexdigest(), text)
        if len(found) >= count:
            break
    for number, text in enumerate([*found.values()][:count]):
        (folder / f"{theme}-{number:04}.jsonl").write_text(text, encoding="utf-8")


def drawn(theme: str, seed: int, count: int) -> list[list[Step]]:
    """Draw feeds of a theme from a seed."""
    found: list[list[Step]] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    @given(THEMES[theme][0])
    def take(steps: list[Step]) -> None:
        found.append(steps)

    take()
    return found


def lines(steps: Sequence[Step]) -> Iterator[Mapping[str, object]]:
    """Yield the lines of a feed; what no feed can say is left out."""
    for step in steps:
        at: dict[str, object] = {"at": step.at_us / 1_000_000}
        match step.what:
            case Marker():
                yield at | {"op": "settle"}
            case str(word):
                yield at | {"op": word}
            case Configure(config=config):
                yield at | {"op": "configure", "config": written(config)}
            case event:
                try:
                    yield at | dict(write_event(event))
                except ValueError:
                    continue


def main(folder: Path, feeds: int, jobs: int) -> None:
    """Write so many feeds, of each theme as many as of the others."""
    folder.mkdir(parents=True)
    share, more = divmod(feeds, len(THEMES))
    wanted = [(theme, share + (number < more)) for number, theme in enumerate(THEMES)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        pool.map(partial(draw, folder), wanted, chunksize=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
