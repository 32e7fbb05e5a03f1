"""Facts about the output of commands for programs: exit statuses and JSON."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from muster.store._rows import FORMAT
from tests.compatibility.decisions import of_store
from tests.compatibility.facts import ALTERNATIVELY, Facts, Surface
from tests.same.interface import DOCS, PROJECT, Run, run

Json = dict[str, Any]

PHILLY: Final = "examples/philly"
SLURM: Final = "examples/slurm/cluster"
RUNS: Final = (
    *("replay first.yaml", "replay refused.yaml", "replay nobody.yaml", "replay --nonsense"),
    *("replay weights.yaml", "replay backfill.yaml", "replay gang.yaml", "replay starving.yaml"),
    *("replay shares.yaml", "replay quota.yaml", "replay state"),
    *("check first.yaml", "check wrong.yaml", "check queues.yaml", "check state"),
    *("check first.yaml wrong.yaml --strict", "explain first.yaml --all", "explain nobody.yaml"),
    *("explain explain.yaml --at 1h --all", "explain backfill.yaml --at 1h --ask small/long"),
    *("explain backfill.yaml --ask no/body", "explain state --all"),
    *("compare first.yaml --config wider.yaml", "compare first.yaml first.yaml"),
    *("compare weights.yaml --config ranked.yaml", "compare first.yaml --config nobody.yaml"),
    *("validate queues.yaml", "validate wider.yaml first.yaml", "validate nobody.yaml"),
    *("convert first.yaml out.msgpack", "convert state state.jsonl --expect", "convert a b"),
    *("store state", "store state --verify", "store nobody"),
    "import swf examples/swf/week.swf --make-config new.yaml -o swf.jsonl",
    f"import slurm {SLURM}/sacct.txt --nodes {SLURM}/nodes.txt --make-config new.yaml -o s.jsonl",
    "import kubernetes examples/kubernetes/cluster.yaml --make-config new.yaml -o k8s.jsonl",
    f"import csv {PHILLY}/jobs-2869ce.csv --mapping {PHILLY}/philly.yaml --nodes 16x,gpu=8 -o csv.jsonl",
    "import csv nobody.csv -o csv.jsonl",
    *("token new ann --role reader", "token new bob --role nobody"),
)
"""The commands that ask no server, with what they are given."""

BY_NAME: Final = frozenset(
    {
        *("resource_s", "utilisation", "utilisation_to_last_arrival", "lost", "reasons"),
        *("weighted_wait_s", "by_size", "by_user", "by_queue"),
    }
)
"""Fields with maps whose keys are names, such as those of resource types."""


def outputs() -> Surface:
    """Return the facts about the commands that ask no server."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        shutil.copytree(DOCS / "feeds", folder, dirs_exist_ok=True)
        (folder / "examples").symlink_to(PROJECT / "examples")
        (folder / "state").mkdir()
        of_store(FORMAT, folder / "state")
        return facts_of_runs(run([*words(one)], folder) for one in RUNS)


def words(line: str) -> Iterator[str]:
    """Yield the words of a command that prints JSON if it can; a comma stands for a space in one."""
    yield from (word.replace(",", " ") for word in line.split())
    if not line.startswith("token"):
        yield from ("--format", "json")


def facts_of_runs(runs: Iterable[Run]) -> Surface:
    """Return the facts about some commands that have run."""
    found = dict[str, Facts]()
    forms_of = dict[str, dict[str, set[str]]]()
    for one in runs:
        depth = 2 if one.words[0] in ("import", "token", "config", "get") else 1
        name = " ".join(("muster", *one.words[:depth]))
        arguments = " ".join(one.words[depth:]).removesuffix(" --format json")
        found.setdefault(name, Facts()).promise(f"({arguments}) exits", one.status)
        if "json" in one.words and one.out:
            for key, form in shape(json.loads(one.out)):
                forms_of.setdefault(name, {}).setdefault(key, set()).add(form)
    for name, forms in forms_of.items():
        for key, several in forms.items():
            found[name].promise(key, ALTERNATIVELY.join(sorted(several)))
    return found


def shape(value: Any, key: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401 - of JSON
    """Yield the path and the type of each value inside a JSON value."""
    match value:
        case dict():
            by_name = key.rpartition(".")[2] in BY_NAME
            for name, below in cast("Json", value).items():
                yield from shape(below, f"{key}.{'*' if by_name else name}")
        case list():
            for one in cast("Sequence[Any]", value):
                yield from shape(one, f"{key}[]")
        case bool():
            yield key, "boolean"
        case int() | float():
            yield key, "number"
        case None:
            yield key, "null"
        case _:
            yield key, "string"
