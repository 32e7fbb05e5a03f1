"""Every command, installed from the wheel without extras and with each extra alone."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import pytest

from muster.cli._main import muster
from tests.install.environments import PROJECT, Environment, build, environment

FEEDS: Final = PROJECT / "docs" / "feeds"
EXAMPLES: Final = PROJECT / "examples"
QUEUES: Final = str(EXAMPLES / "serve" / "queues.yaml")
FIRST: Final = str(FEEDS / "first.yaml")
SLURM: Final = EXAMPLES / "slurm" / "cluster"
PHILLY: Final = EXAMPLES / "philly"
SOCKET: Final = "socket"

OFFLINE: Final = {
    "replay": [FIRST],
    "check": [FIRST],
    "explain": ["--all", str(FEEDS / "explain.yaml")],
    "compare": ["--config", QUEUES, FIRST],
    "validate": [QUEUES],
    "convert": [FIRST, "first.jsonl.gz"],
    "import csv": [
        *("--mapping", str(PHILLY / "philly.yaml"), "--nodes", "16x nvidia.com/gpu=8"),
        *("-o", "csv.jsonl", str(PHILLY / "jobs-2869ce.csv")),
    ],
    "import kubernetes": ["-o", "pods.jsonl", str(EXAMPLES / "kubernetes" / "cluster.yaml")],
    "import slurm": [
        *("--nodes", str(SLURM / "nodes.txt"), "-o", "slurm.jsonl", str(SLURM / "sacct.txt"))
    ],
    "import swf": ["-o", "swf.jsonl", str(EXAMPLES / "swf" / "week.swf")],
    "store": ["--verify", "state"],
    "token new": ["--role", "reader", "ci"],
}
"""The arguments of every command that asks nobody, in the folder that ``KEEP`` ran in."""

ASKING: Final = {
    "run": ["--queue", "root.batch", "--name", "hello", "echo", "hello"],
    "submit": ["--queue", "root.batch", "--name", "later", "--command", "sleep 60"],
    "get": ["queues"],
    "why": ["hello/job"],
    "logs": ["hello/job"],
    "cancel": ["later"],
    "drain": ["nowhere"],
    "promote": [],
    "config apply": [QUEUES],
    "config diff": [QUEUES],
    "config get": [],
    "decisions": [],
}
"""Those of every command that asks a server."""

KEEP: Final = """
import muster, trio

async def main():
    async with muster.open_scheduler(store="state") as scheduler:
        await scheduler.add_node("node-1", {"vcore": 1})

trio.run(main)
"""
"""A program that embeds a scheduler, and leaves a state directory."""

SERVE: Final = [
    *("--config", QUEUES, "--run", "local", "--tokens", "tokens", "--trust-submitters"),
    *("--state", "served", "--listen", f"unix:{SOCKET}"),
]


def commands(command: click.Command, *names: str) -> Iterator[str]:
    """Yield the names of all commands that have no subcommands."""
    if not isinstance(command, click.Group):
        yield " ".join(names)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, *names, name)


def test_every_command_has_arguments_here() -> None:
    assert set(commands(muster)) == {*OFFLINE, *ASKING, "serve"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


def installed(wheel: Path, home: Path, extra: str = "") -> Environment:
    made = Environment.make(home)
    made.install(f"{wheel}[{extra}]" if extra else str(wheel))
    return made


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("client"), "client")


@pytest.fixture(scope="module")
def server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("server"), "serve")


@contextmanager
def served(server: Environment, folder: Path) -> Generator[str]:
    """Run a service, and see that it ends in order; give a token for it."""
    words = ("token", "new", "ci", "--role", "admin", "--user", "ci", "--tokens", "tokens")
    (folder / "tokens").touch(0o600)
    token = server.run("muster", *words, cwd=folder).stdout.split()[0]
    command = [str(server.home / "bin" / "muster"), "serve", *SERVE]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            output = ""
            for line in process.stderr:
                output += line
                if "listening on" in line:
                    break
            else:
                pytest.fail(output)
            yield token
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, process.stderr.read()
        finally:
            process.kill()


def extra_named(output: str) -> str | None:
    """Return the extra that one line asks for, None if it is something else."""
    found = re.fullmatch(
        r"Error: muster \w+ needs the extra \"(\w+)\", since \w+ is missing: "
        r"pip install 'muster-scheduler\[(\w+)\]'\n",
        output,
    )
    if found is None:
        return None
    assert found[1] == found[2]
    return found[1]


# ACCESS-22


@pytest.mark.takes_long
def test_without_extras_every_command_works_or_names_the_extra(
    bare: Environment, tmp_path: Path
) -> None:
    embedding = bare.run("python", "-c", KEEP, cwd=tmp_path)
    assert embedding.returncode == 0, embedding.stderr
    for name, arguments in OFFLINE.items():
        done = bare.run("muster", *name.split(), *arguments, cwd=tmp_path)
        expected = 1 if name == "compare" else 0
        assert (done.returncode, "Traceback" in done.stderr) == (expected, False), done.stderr
    for name, arguments in {**ASKING, "serve": SERVE}.items():
        done = bare.run("muster", *name.split(), *arguments, cwd=tmp_path)
        wanted = "serve" if name == "serve" else "client"
        assert (done.returncode, done.stdout) == (2, ""), (name, done.stderr)
        assert extra_named(done.stderr) == wanted, (name, done.stderr)


@pytest.mark.takes_long
def test_completion_without_extras_says_nothing(bare: Environment, tmp_path: Path) -> None:
    variables = {
        "_MUSTER_COMPLETE": "bash_complete",
        "COMP_WORDS": "muster get apps ",
        "COMP_CWORD": "3",
    }
    done = bare.run("muster", cwd=tmp_path, **variables)

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@pytest.mark.takes_long
def test_the_hint_brings_the_extra(wheel: Path, tmp_path: Path) -> None:
    """The requirement is met by what is installed: pip looks for what is missing, no more."""
    made = installed(wheel, tmp_path / "home")
    made.install("muster-scheduler[client]")

    done = made.run("muster", "get", "queues", "--server", "unix:nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("unix:nowhere: ")


@pytest.mark.takes_long
def test_client_and_server_need_their_extra_alone(
    client: Environment, server: Environment, tmp_path: Path
) -> None:
    for number, asking in enumerate((client, server)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with served(server, folder) as token:
            for name, arguments in ASKING.items():
                words = [*name.split(), "--server", f"unix:{SOCKET}", *arguments]
                done = asking.run("muster", *words, cwd=folder, MUSTER_TOKEN=token)
                output = f"{name}: {done.stdout}{done.stderr}"
                assert "Traceback" not in output
                assert done.returncode == (1 if name in {"drain", "promote"} else 0), output


@pytest.mark.takes_long
@pytest.mark.parametrize(
    ("extra", "module"),
    [
        ("kubernetes", "muster.kubernetes"),
        ("fuzz", "muster.testing.fuzz"),
        ("client", "muster.client"),
    ],
)
def test_modules_of_an_extra_need_it_alone(
    wheel: Path, tmp_path: Path, extra: str, module: str
) -> None:
    made = installed(wheel, tmp_path / "home", extra)

    done = made.run("python", "-c", f"import {module}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if extra == "fuzz":
        done = made.run("python", "-m", module, "--programs", "3", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
