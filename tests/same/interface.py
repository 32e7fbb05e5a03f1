"""What people type and what programs import: commands, their help and output, names and signatures."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Final

import attrs
from typing_extensions import override

from muster.cli import main

PROJECT: Final = Path(__file__).resolve().parent.parent.parent
DOCS: Final = PROJECT / "docs"

Write = Callable[[str, str], None]
"""Keeps an item: its name, and its text."""

MASKS: Final = (
    # How long a replay took, and how far it was after a second: that is measured.
    (re.compile(r"in [\d.,]+ s\s\([\d.,]+\sa\ssecond\)"), "in … s"),
    (re.compile(r'"(real_s|decisions_per_s)": [^,}]+'), r'"\1": …'),
    (re.compile(r"^[\d,]+ events, \S+( \S+)?, .* read\n", re.MULTILINE), ""),
    # Where a function is in memory, as the default of an argument.
    (re.compile(r" at 0x[0-9a-f]+"), ""),
    # When asks were counted: beside everything else, by the clock of trio, which has to go on.
    (re.compile(r"(asks as of <time).*"), r"\1 …"),
    # When the files of the package were written.
    (re.compile(r'("buildDate":)"[^"]*"'), r"\1…"),
)
"""What differs from run to run, and what is written instead."""

CONSOLE: Final = re.compile(r"^\$ (muster .+)$", re.MULTILINE)
IN_ORDER: Final = ("importing", "coming-from-slurm.md")
"""Pages whose commands write files, which later commands read."""

SERVERS: Final = frozenset({"serve", "run", "get", "submit", "why", "logs", "cancel", "drain"})
"""Commands that need a server, or are one; `service.py` runs them."""

DRAWN: Final = "token new"
"""The command that draws a secret: only its help is compared."""


def masked(text: str) -> str:
    """Return a text without what differs from run to run."""
    for pattern, instead in MASKS:
        text = pattern.sub(instead, text)
    return text


@attrs.frozen
class Run:
    """What a command did.

    Attributes:
        words: The command after ``muster``.
        status: Its exit status.
        out: What it wrote to standard output.
        err: What it wrote to standard error.
    """

    words: Sequence[str]
    status: object
    out: str
    err: str

    @override
    def __str__(self) -> str:
        """Return status and output as one text."""
        command = shlex.join(("muster", *self.words))
        return masked(f"$ {command}\n{self.out}== error\n{self.err}== exit {self.status}\n")


def run(words: Sequence[str], folder: Path) -> Run:
    """Run ``muster`` in this process: a new one would import all of it."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in "12")
    status: object = None
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            status = end.code
    texts = [stream.buffer.getvalue().decode("utf-8", "backslashreplace") for stream in (out, err)]
    return Run(words, status, *texts)


def show_help(write: Write) -> None:
    """Write the help of every command, found from the help of the one above."""
    todo: list[tuple[str, ...]] = [()]
    while todo:
        words = todo.pop()
        shown = run((*words, "--help"), DOCS)
        if shown.status != 0:
            msg = f"no help: {shown}"
            raise RuntimeError(msg)
        write(" ".join(("muster", *words)), f"{shown}")
        _, _, below = shown.out.partition("\nCommands:\n")
        below = below.partition("\n\n")[0]
        todo += [(*words, name) for name in re.findall(r"^  (\S+)", below, re.MULTILINE)]
    write("muster --version", f"{run(('--version',), DOCS)}")


def documented(page: Path) -> list[list[str]]:
    """Return the words of each command of a page that needs no server and no shell."""
    found: list[list[str]] = []
    for command in CONSOLE.findall(page.read_text(encoding="utf-8")):
        words = shlex.split(command.partition(" 2>")[0].partition(" | ")[0])[1:]
        if words[0] not in SERVERS and "--help" not in words:
            found.append(words)
    return found


def run_documented(write: Write) -> None:
    """Run the commands of the documentation, and those that print JSON on its feeds."""
    pages = sorted([*DOCS.rglob("*.md"), PROJECT / "README.md"])
    for page in pages:
        name = f"{page.relative_to(PROJECT)}"
        is_in_order = page.relative_to(DOCS).parts[0] in IN_ORDER if DOCS in page.parents else False
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path)
            if not is_in_order:
                shutil.copytree(DOCS / "feeds", folder, dirs_exist_ok=True)
            (folder / "examples").symlink_to(PROJECT / "examples")
            before = {*folder.iterdir()}
            for number, words in enumerate(documented(page)):
                one = run(words, folder)
                if is_in_order and one.status == 2:
                    msg = f"{name}: a command of it cannot be used: {one}"
                    raise RuntimeError(msg)
                write(f"{name} {number} {' '.join(words)}", f"{one}")
            for made in sorted({*folder.iterdir()} - before):
                write(f"{name} {made.name}", masked(made.read_text(encoding="utf-8")))


def run_on_feeds(write: Write) -> None:
    """Run every command that reads a feed on the feeds of the documentation, with JSON."""
    json = ("--format", "json")
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        shutil.copytree(DOCS / "feeds", folder, dirs_exist_ok=True)
        for feed in sorted(path.name for path in (DOCS / "feeds").iterdir()):
            for words in (
                ("replay", feed, *json),
                ("replay", feed, "--report", "-"),
                ("check", feed, *json),
                ("explain", feed, "--all", *json),
                ("compare", feed, "--config", "wider.yaml", *json),
                ("validate", feed, *json),
                ("convert", feed, f"{feed}.jsonl"),
            ):
                write(" ".join(words), f"{run(words, folder)}")
            for made in folder.glob(f"{feed}.jsonl"):
                write(f"converted {feed}", made.read_text(encoding="utf-8"))


AUTO: Final = re.compile(
    r"^\.\. auto(?P<what>module|class|function|exception|data):: (?P<name>[\w.]+)(?P<hides>\(\))?"
    r"(?P<options>(?:\n   [ :].*)*)",
    re.MULTILINE,
)
"""An entry of the reference of Python."""


def entries() -> Iterator[re.Match[str]]:
    """Yield the entries of the reference of Python, as :data:`AUTO` reads them."""
    return AUTO.finditer((DOCS / "reference" / "python.md").read_text(encoding="utf-8"))


def show_names(write: Write) -> None:
    """Write the names of each module in the reference of Python, with signatures and members.

    A class that stands there with ``()`` is made by Muster alone: how is nobody else's business.
    """
    modules, made_by_us = set[str](), set[str]()
    for entry in entries():
        module, _, own = entry["name"].rpartition(".")
        modules.add(entry["name"] if entry["what"] == "module" else module)
        if entry["hides"]:
            made_by_us.add(own)
    for name in sorted(modules):
        module = importlib.import_module(name)
        lines = [
            line
            for one in exported(module)
            for line in shown(one, getattr(module, one), hides=one in made_by_us)
        ]
        write(name, masked("\n".join([f"{name}: {exported(module)}", *lines, ""])))


def exported(module: ModuleType) -> list[str]:
    """Return the public names of a module in order."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    own = set[str]()
    for one in ast.parse(inspect.getsource(module)).body:  # what is imported belongs elsewhere
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                own.add(one.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                own.add(name)
            case _:
                pass
    return sorted(one for one in own if one[0] != "_")


def shown(name: str, value: object, *, inside: bool = False, hides: bool = False) -> Iterator[str]:
    """Yield lines that tell how something public is used.

    Args:
        name: Its name.
        value: The class, function or constant.
        inside: Whether it is a member of a class.
        hides: Whether it is a class that only Muster calls.
    """
    indent = "    " if inside else ""
    match value:
        case type():
            bases = ", ".join(one.__name__ for one in value.__mro__[1:] if one.__name__[0] != "_")
            yield f"{indent}class {name}{'' if hides else signature(value)} of {bases}"
            if not inside:
                for member in members(value):
                    yield from shown(member, inspect.getattr_static(value, member), inside=True)
        case property():
            yield f"{indent}{name}: property{signature(value.fget)}"
        case _ if (function := getattr(value, "__func__", None)) is not None:
            yield f"{indent}{name}: {type(value).__name__}{signature(function)}"
        case Enum():
            yield f"{indent}{name} = {value.value!r}"
        case _ if callable(value):
            kind = "async def" if inspect.iscoroutinefunction(value) else "def"
            yield f"{indent}{kind} {name}{signature(value)}"
        case str() | int() | float() | None:
            yield f"{indent}{name} = {value!r}"
        case _:
            yield f"{indent}{name}: {type(value).__name__}"


def members(of: type) -> Iterable[str]:
    """Return the public members of a class in order, of its bases in Muster as well."""
    ours = [
        one for one in of.__mro__ if one.__module__.partition(".")[0] in ("muster", "muster_core")
    ]
    return sorted({name for one in ours for name in vars(one) if name[:1] != "_"})


def signature(value: object) -> str:
    """Return a signature, or nothing where there is none."""
    try:
        return f"{inspect.signature(value)}"  # type: ignore[arg-type] # what is none raises
    except (TypeError, ValueError):
        return ""
