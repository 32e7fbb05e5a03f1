"""Compare everything visible of Muster with what it was in another commit::

    make same BASE=HEAD~3
    make same BASE=HEAD~3 ONLY="feeds help" FEEDS=500

The trees, the random feeds and what was collected of them are kept in ``build/same``. Only the working
tree is looked at again each time.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from tests.same.collector import KINDS, Kind
from tests.same.comparison import compare
from tests.same.fixed import END_NS, NANOSECONDS
from tests.same.interface import PROJECT

HOME: Final = PROJECT / "build" / "same"
SOURCES: Final = ("fixed.py", "interface.py", "replays.py", "service.py", "collector.py")
FIXED: Final = {
    "COLUMNS": "90",
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "TZ": "UTC",
}
MOST: Final = 3
"""How many differences of a kind are shown."""


def run(tree: Path, module: str, *arguments: object) -> None:
    """Run a module of this tree with the Muster of a tree, by the fixed clock.

    Raises:
        click.ClickException: If it fails.
    """
    roots = [f"{tree / root}" for root in ("core", "actors")]
    fixed = FIXED | {"PYTHONPATH": os.pathsep.join([*roots, f"{PROJECT}"])}
    kept = [name for name in os.environ if name == "MUSTER_PURE" or not name.startswith("MUSTER_")]
    inherited = {name: os.environ[name] for name in kept}
    clock = HOME / "clock"
    clock.write_bytes(NANOSECONDS.pack(END_NS))
    words = [sys.executable, "-m", "tests.same.fixed", clock, "-m", module, *arguments]
    if subprocess.run(
        [*map(str, words)], cwd=PROJECT, env=inherited | fixed, check=False
    ).returncode:
        msg = f"{module} has failed with {tree}"
        raise click.ClickException(msg)


def tree_of(commit: str) -> Path:
    """Return a folder with the sources of a commit, which is made if it is not there."""
    tree = HOME / "trees" / commit
    if not tree.exists():
        made = subprocess.run(
            ["git", "archive", commit, "core", "actors"],
            cwd=PROJECT,
            capture_output=True,
            check=True,
        )
        part = tree.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
            archive.extractall(part, filter="data")
        part.rename(tree)
    return tree


def random_feeds(feeds: int, jobs: int) -> Path:
    """Return the folder of so many random feeds, which are drawn once."""
    folder = HOME / f"feeds-{feeds}"
    if not folder.exists():
        click.echo(f"drawing {feeds:,} feeds, once")
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        run(PROJECT, "tests.same.inputs", part, feeds, jobs)
        part.rename(folder)
    return folder


def key_of(kind: Kind, feeds: int) -> str:
    """Return a digest of what decides what is asked for: what was collected with it can be kept."""
    digest = hashlib.sha256(sys.version.encode())
    if kind.least is None:
        digest.update(f"{feeds}".encode())
    for path in _files(kind):
        digest.update(f"{path.relative_to(PROJECT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _files(kind: Kind) -> Iterator[Path]:
    for source in SOURCES:
        yield Path(__file__).parent / source
    for name in kind.inputs:
        path = PROJECT / name
        within = sorted(path.rglob("*")) if path.is_dir() else [path]
        # Not what is built or compiled.
        yield from (
            one
            for one in within
            if one.is_file() and not {"__pycache__", "_build", "out"} & {*one.parts}
        )


def collect(tree: Path, out: Path, random: Path, jobs: int, kinds: Sequence[str]) -> None:
    """Collect the items of some kinds anew; none is there unless all are."""
    part = out.with_name(f"{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    began = time.monotonic()
    run(tree, "tests.same.collector", tree, part, random, jobs, *kinds)
    out.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        shutil.rmtree(out / kind, ignore_errors=True)
        (part / kind).rename(out / kind)
    click.echo(f"collected from {tree.relative_to(PROJECT)} in {time.monotonic() - began:.0f} s")


@click.command()
@click.option("--base", required=True, metavar="COMMIT", help="The commit to compare with.")
@click.option("--only", default="", metavar="KINDS", help=f"Of these only: {', '.join(KINDS)}.")
@click.option("--feeds", default=5_000, show_default=True, help="How many random feeds.")
@click.option("--jobs", default=2, show_default=True, help="How many processes.")
def main(base: str, only: str, feeds: int, jobs: int) -> None:
    """Compare the working tree with a commit; the exit status is 1 if anything differs."""
    kinds = only.replace(",", " ").split() or [*KINDS]
    if unknown := {*kinds} - {*KINDS}:
        msg = f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}"
        raise click.UsageError(msg)
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        msg = f"no such commit: {base}"
        raise click.UsageError(msg)
    HOME.mkdir(parents=True, exist_ok=True)
    commit = found.stdout.strip()
    random = random_feeds(feeds, jobs) if "random" in kinds else HOME
    old, new = HOME / "before" / commit, HOME / "now"
    keys = {kind: key_of(KINDS[kind], feeds) for kind in kinds}
    missing = [kind for kind in kinds if not (old / keys[kind] / kind).exists()]
    if missing:
        collect(tree_of(commit), old / "new", random, jobs, missing)
        for kind in missing:
            (old / keys[kind]).mkdir(exist_ok=True)
            (old / "new" / kind).rename(old / keys[kind] / kind)
    collect(PROJECT, new, random, jobs, kinds)
    are_same = True
    for kind in kinds:
        least = KINDS[kind].least
        result = compare(old / keys[kind] / kind, new / kind, feeds if least is None else least)
        are_same = are_same and result.is_same
        for line in result.lines(f"{kind:<12} {result.count:>6,} {KINDS[kind].about}", MOST):
            click.echo(line)
    sys.exit(0 if are_same else 1)


if __name__ == "__main__":
    main()
