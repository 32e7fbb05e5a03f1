"""The options of ``muster serve`` about Ray: what they are, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from muster.service.backends.local import LocalOptions
from muster.service.backends.ray import RayOptions
from muster.service.options import ServeOptions
from muster.service.startup_checks import problems_of

RAY = ServeOptions(backend=RayOptions())
TOKENS = Path("tokens")


def on_ray(**options: object) -> ServeOptions:
    ray = RayOptions(**options)  # type: ignore[arg-type]
    return attrs.evolve(RAY, backend=ray)


# RAY-3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (attrs.evolve(RAY, run_as=(("*", "nobody"),)), "--run-as needs --run local: on a node of"),
        (attrs.evolve(RAY, tokens=TOKENS), "--run ray with --tokens runs commands of submitters"),
        (
            attrs.evolve(RAY, tokens=TOKENS, run_as=(("*", "nobody"),)),
            "--run-as needs --run local: on a node of",
        ),
        (on_ray(detached=True), "--ray-detached needs --state"),
        (on_ray(address="ray://head:10001"), "--ray-address: ray://head:10001: must be HOST:PORT"),
        (on_ray(output=Path("out")), "--ray-output: out: must begin at /"),
        (attrs.evolve(RAY, unused=(LocalOptions(end_jobs=True),)), "--end-jobs needs --run local"),
        (attrs.evolve(RAY, unused=(LocalOptions(adds_node=False),)), "--no-node needs --run local"),
        (attrs.evolve(RAY, unused=(LocalOptions(log_bytes=7),)), "--log-bytes needs --run local"),
        (ServeOptions(trust_submitters=True), "--trust-submitters needs --run local or ray"),
        (ServeOptions(unused=(LocalOptions(end_jobs=True),)), "--end-jobs needs --run local"),
    ],
)
def test_what_makes_no_sense(options: ServeOptions, problem: str) -> None:
    (found,) = problems_of(options)
    assert found.startswith(problem)


@pytest.mark.parametrize("run", ["none", "local"])
@pytest.mark.parametrize(
    "argument",
    [
        ("--ray-address", "head:6379"),
        ("--ray-namespace", "ours"),
        ("--ray-python", "python3"),
        ("--ray-node-name", "name"),
        ("--ray-select", "muster=yes"),
        ("--ray-warm", "1"),
        ("--ray-detached",),
        ("--no-ray-detached",),
        ("--ray-output", "/out"),
    ],
)
def test_what_is_only_for_ray(run: str, argument: tuple[str, ...]) -> None:
    name = argument[0].replace("--no-ray", "--ray")
    tokens = ("--tokens", "tokens", "--trust-submitters") if run == "local" else ()
    assert serve("--run", run, *tokens, *argument) == (
        2,
        f"{name} needs --run ray: with --run {run} it means nothing\n",
    )


@pytest.mark.parametrize(
    "options",
    [
        RAY,
        attrs.evolve(RAY, tokens=TOKENS, trust_submitters=True),
        attrs.evolve(on_ray(detached=True), state=Path("state")),
        on_ray(detached=False, address="head:6379", namespace="ours", select=(("muster", "yes"),)),
        on_ray(output=Path("/out"), warm=2, python=Path("python3"), node_name="name", grace_s=1.0),
    ],
)
def test_what_makes_sense(options: ServeOptions) -> None:
    assert problems_of(options) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--ray-select", "muster"), "'muster': must be LABEL=VALUE"),
        (("--ray-select", "=yes"), "'=yes': must be LABEL=VALUE"),
        (("--ray-select", "muster="), "'muster=': must be LABEL=VALUE"),
        (("--ray-select", "a=b", "--ray-select", "a=c"), "'a=c': the label a is there twice"),
        (("--ray-warm", "-1"), "-1 is not in the range"),
        (("--run", "slurry"), "'slurry' is not one of"),
    ],
)
def test_arguments_that_are_wrong(arguments: tuple[str, ...], problem: str) -> None:
    status, told = serve("--run", "ray", *arguments)
    assert status == 2
    assert problem in told


def serve(*arguments: str) -> tuple[int, str]:
    """Run a service that does not start; give its exit status and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "muster", "serve", "--listen=127.0.0.1:0", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr
