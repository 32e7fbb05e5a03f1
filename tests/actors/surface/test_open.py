"""Opening a scheduler: its configuration, and what callers bring along."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import muster
from muster.testing import Inputs, Recording
from muster_core.config import default_configuration
from muster_core.events import Event
from tests.actors.program import NODE

# Opening


QUEUES: Final = """
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: one}, {name: two, queues: [{name: three}]}]
"""
PATHS: Final = {"root", "root.one", "root.two", "root.two.three"}


async def test_a_configuration_can_be_a_text() -> None:
    async with muster.open_scheduler(QUEUES) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == PATHS


async def test_a_configuration_can_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(QUEUES)
    async with muster.open_scheduler(path) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == PATHS


async def test_a_configuration_can_be_maps_and_lists() -> None:
    config = {
        "partitions": [{"name": "p", "queues": [{"name": "root", "queues": ({"name": "x"},)}]}]
    }
    async with muster.open_scheduler(config) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == {"root", "root.x"}


async def test_a_configuration_can_be_loaded_before() -> None:
    async with muster.open_scheduler(default_configuration()) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == {"root"}


async def test_a_partition_can_be_chosen() -> None:
    one = "{name: one, queues: [{name: root, queues: [{name: x}]}]}"
    two = "{name: two, queues: [{name: root, queues: [{name: y}]}]}"
    async with muster.open_scheduler(f"partitions: [{one}, {two}]", partition="two") as scheduler:
        assert "root.y" in (await scheduler.snapshot()).queues


async def test_a_bad_configuration_is_refused_with_its_line() -> None:
    with pytest.raises(muster.ConfigError, match=r"3: .*'colour'"):
        async with muster.open_scheduler("partitions:\n  - name: default\n    colour: red\n"):
            pytest.fail("opened")


async def test_a_bad_map_is_refused_with_its_path() -> None:
    with pytest.raises(muster.ConfigError, match=r"config\.partitions\[0\].*'colour'"):
        async with muster.open_scheduler({"partitions": [{"name": "p", "colour": "red"}]}):
            pytest.fail("opened")


async def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        async with muster.open_scheduler(Path("not-there.yaml")):
            pytest.fail("opened")


@pytest.mark.parametrize(
    ("seconds", "attempts", "field"),
    [(0, 3, "bind_timeout: 0"), (-1.5, 3, "bind_timeout: -1.5"), (1, 0, "bind_attempts: 0")],
)
async def test_limits_that_make_no_sense(seconds: float, attempts: int, field: str) -> None:
    with pytest.raises(muster.EventError, match=field):
        async with muster.open_scheduler(bind_timeout=seconds, bind_attempts=attempts):
            pytest.fail("opened")


async def test_two_schedulers_do_not_know_of_one_another() -> None:
    async with muster.open_scheduler() as one, muster.open_scheduler() as two:
        await one.submit(NODE)
        await two.submit(NODE)
        await one.remove_node("n")

        assert (await two.snapshot()).nodes.keys() == {"n"}


# What callers bring along


async def test_the_warnings_of_the_first_configuration_are_announced() -> None:
    log, record = Recording(), Inputs()
    config = """
partitions:
  - name: default
    queues: [{name: root, queues: [{name: q, properties: {colour: red}}]}]
"""
    async with muster.open_scheduler(config, journal=log, record=record):
        pass

    (first, *_) = log.decisions
    assert (first.at_us, first.decision.kind) == (0, muster.Kind.WARNING)
    assert "colour" in str(first.decision.message)


async def test_an_examiner_that_fails_does_not_end_the_scheduler() -> None:
    def fails(_: object) -> None:
        raise KeyError("mine")

    async with muster.open_scheduler() as scheduler:
        with pytest.raises(KeyError, match="mine"):
            await scheduler.examine(fails)
        await scheduler.settle()


@pytest.mark.parametrize("error", [OSError("full"), StopIteration("over")], ids=repr)
async def test_the_error_of_a_record_comes_out(error: Exception) -> None:
    class Fails:
        def enter(self, at_us: int, event: Event, /) -> None:
            raise error

        def close(self, at_us: int, /) -> None:
            pass

    with pytest.raises(Exception, match=r"full|StopIteration") as caught:
        async with muster.open_scheduler(record=Fails()) as scheduler:
            await scheduler.submit(NODE)

    assert error in (caught.value, caught.value.__cause__)
    assert not isinstance(caught.value, muster.BrokenSchedulerError)
