"""The promises in the files beside this one, and the present facts and logs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from muster.store._rows import FORMAT
from tests.compatibility import decisions, facts
from tests.compatibility.facts import Surface
from tests.compatibility.outputs import facts_of_runs, outputs
from tests.compatibility.python import names
from tests.compatibility.surfaces import commands, formats, http, metrics
from tests.same.service import in_fixed_state, run_clients

HERE: Final = Path(__file__).parent / "promised"


def clients() -> Surface:
    """Return the facts about the commands that ask a server; it starts one."""
    with in_fixed_state() as fixed:
        return facts_of_runs(run_clients(fixed))


QUICK: Final[Mapping[str, Callable[[], Surface]]] = {
    one.__name__: one for one in (names, http, metrics, commands, formats, outputs)
}
SURFACES: Final[Mapping[str, Callable[[], Surface]]] = {**QUICK, "clients": clients}
"""What is compared fact by fact: the name of a file, and what there is now."""


def of_store(name: str) -> list[str]:
    """Return the log of the store of a format."""
    with tempfile.TemporaryDirectory() as path:
        return decisions.of_store(int(name.partition(" ")[2]), Path(path))


LOGS: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "decisions": decisions.of_feed,
    "traces": decisions.of_trace,
    "stores": of_store,
}
"""What is compared line by line: the name of a file, and what gives the log of a name in it."""


def text(name: str) -> str:
    """Return the text of a file."""
    path = HERE / f"{name}.txt"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def kept_facts(name: str) -> Surface:
    """Return the facts that are kept."""
    return facts.read(text(name))


def kept_logs(name: str) -> dict[str, list[str]]:
    """Return the logs that are kept."""
    return decisions.read(text(name))


def compare(feeds: Sequence[str]) -> tuple[list[str], list[str], dict[str, str]]:
    """Compare all facts and logs.

    Args:
        feeds: Feeds whose decisions are to be kept from now on.

    Returns:
        What is broken, what is not kept yet, and what the files would be.
    """
    wrong, new, texts = list[str](), list[str](), dict[str, str]()
    for name, present in SURFACES.items():
        now = present()
        broken, added = facts.differences(kept_facts(name), now)
        wrong += [f"{name}: {line}" for line in broken]
        new += [f"{name}: {line}" for line in added]
        texts[name] = facts.text_of(now)
    wanted = {
        "decisions": feeds,
        "traces": [*decisions.TRACES],
        "stores": [f"format {number}" for number in range(1, FORMAT + 1)],
    }
    for name, present_log in LOGS.items():
        kept = kept_logs(name)
        now_logs = {one: present_log(one) for one in dict.fromkeys([*kept, *wanted[name]])}
        new += [f"{name}: {one}" for one in now_logs.keys() - kept.keys()]
        for one, log in kept.items():
            if (difference := decisions.first_difference(log, now_logs[one])) is not None:
                wrong.append(f"{name}: {one}: {difference}")
        texts[name] = decisions.text_of(now_logs)
    return wrong, new, texts


def write(folder: Path, wrong: Sequence[str], texts: Mapping[str, str], *, breaks: bool) -> bool:
    """Write the files, unless a promise is broken and may not be; return whether it did."""
    if wrong and not breaks:
        return False
    folder.mkdir(exist_ok=True)
    for name, content in texts.items():
        (folder / f"{name}.txt").write_text(content, encoding="utf-8")
    return True
