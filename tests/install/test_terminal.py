"""Completion in a shell and the manual page, with the programs of users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from docs.manual import page
from muster.cli._main import muster
from tests.install.environments import PROJECT, build, environment
from tests.install.test_extras import commands

MANUAL: Final = PROJECT / "docs" / "man" / "muster.1"
LIMIT_S: Final = 60.0

#: Calls what completes `muster`, as bash does when Tab is pressed behind the last word.
COMPLETE: Final = """
set -euo pipefail
eval "$(_MUSTER_COMPLETE=bash_source muster)"
complete -p muster
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_muster_completion muster "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(folder: Path, *words: str) -> list[str]:
    """Return the completions of bash for the last of some words."""
    # What bash calls is a program on the path.
    program = folder / "muster"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m muster "$@"\n', "utf-8")
    program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", COMPLETE, "bash", *words],
        cwd=folder,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    registration, *offered = done.stdout.splitlines()
    assert registration.startswith("complete ")
    assert registration.endswith(" muster")
    return offered


# CLIENT-6


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["rep"], ["replay"]),
        (["import", ""], ["csv", "kubernetes", "slurm", "swf"]),
        (["get", "no"], ["nodes"]),
        (["replay", "--form"], ["--format"]),
        (["replay", "--format", ""], ["text", "json"]),
    ],
    ids=" ".join,
)
def test_bash_completes(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    assert completed(tmp_path, "muster", *words) == offered


def output_of(*command: str) -> tuple[str, str]:
    done = subprocess.run(
        command,
        env=environment(MANWIDTH="100", MANROFFOPT="-ww", LC_ALL="C.UTF-8", GROFF_NO_SGR="1"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    # Bold is a letter that is struck twice.
    return subprocess.run(
        ["col", "-bx"],
        input=done.stdout,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    ).stdout, done.stderr


@pytest.mark.parametrize(
    "command", [("man", "-l"), ("groff", "-Tutf8", "-man", "-ww")], ids=" ".join
)
def test_the_manual_can_be_read(command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None or shutil.which("col") is None:
        pytest.skip(f"{command[0]} or col is missing")
    text, warnings = output_of(*command, str(MANUAL))

    assert warnings == ""
    words = " ".join(text.split())
    for heading in ("NAME muster - schedule asks on nodes", "EXIT STATUS", "ENVIRONMENT", "FILES"):
        assert heading in words
    assert "Also MUSTER_QUEUE. [default: the only one, or root.default]" in words
    assert "muster replay feed.yaml --decisions decisions.jsonl" in words


def test_the_manual_has_every_command() -> None:
    text = page()
    for name in commands(muster):
        assert f'.SS "muster {name} ' in text, name


def test_the_manual_is_where_man_looks_for_it(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build("wheel", tmp_path)).namelist()

    assert [name for name in names if name.endswith(".data/data/share/man/man1/muster.1")]
