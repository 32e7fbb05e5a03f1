"""Opening a scheduler: its configuration, however a program has it, and what callers bring along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import muster
from muster.config_files import parse_configuration
from muster.testing import Inputs, Recording
from muster_core.config import default_configuration
from muster_core.events import Event
from tests.actors.program import NODE
from tests.actors.service import service

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
    class FailingRecord:
        def enter(self, at_us: int, event: Event, /) -> None:
            raise error

        def close(self, at_us: int, /) -> None:
            pass

    with pytest.raises(Exception, match=r"full|StopIteration") as caught:
        async with muster.open_scheduler(record=FailingRecord()) as scheduler:
            await scheduler.submit(NODE)

    assert error in (caught.value, caught.value.__cause__)
    assert not isinstance(caught.value, muster.BrokenSchedulerError)


# Configurations

TEXT: Final = "partitions: [{name: default, queues: [{name: root, queues: [{name: new}]}]}]\n"
MAPPING: Final[dict[str, Any]] = {
    "partitions": [{"name": "default", "queues": [{"name": "root", "queues": [{"name": "new"}]}]}]
}
TWO: Final = (
    "partitions:\n"
    "- {name: one, queues: [{name: root, queues: [{name: q}]}]}\n"
    "- {name: two, queues: [{name: root, queues: [{name: new}]}]}\n"
)


def config_as(kind: str, text: str, path: Path) -> Any:  # noqa: ANN401 - of any kind
    path.write_text(text, "utf-8")
    kinds: dict[str, Callable[[], object]] = {
        "text": lambda: text,
        "path": lambda: path,
        "mapping": lambda: MAPPING,
        "loaded": lambda: parse_configuration(text),
    }
    return kinds[kind]()


@pytest.mark.parametrize("kind", ["text", "path", "mapping", "loaded"])
async def test_a_configuration(kind: str, tmp_path: Path) -> None:
    config = config_as(kind, TEXT, tmp_path / "queues.yaml")
    async with service() as scheduler:
        await scheduler.configure(config)
        assert await queues(scheduler) == {"root", "root.q", "root.new"}  # `root.q` is draining.
    async with muster.open_scheduler(config) as scheduler:
        assert await queues(scheduler) == {"root", "root.new"}


async def queues(scheduler: muster.Scheduler) -> set[str]:
    return {queue.path for queue in (await scheduler.snapshot()).queues.values()}


@pytest.mark.parametrize("kind", ["text", "path"])
async def test_the_partition_that_is_to_run(kind: str, tmp_path: Path) -> None:
    config = config_as(kind, TWO, tmp_path / "queues.yaml")
    async with muster.open_scheduler(config, partition="two") as scheduler:
        assert await queues(scheduler) == {"root", "root.new"}
    with pytest.raises(muster.ConfigError, match="three"):
        async with muster.open_scheduler(config, partition="three"):
            pass


async def test_the_partition_of_a_loaded_configuration() -> None:
    config = parse_configuration(TWO, partition="two")
    async with muster.open_scheduler(config, partition="two") as scheduler:
        await scheduler.configure(config)
        with pytest.raises(muster.ConfigError, match=r"partition: 'one'.*with 'two'"):
            await scheduler.configure(config, partition="one")


async def test_a_partition_without_a_configuration() -> None:
    with pytest.raises(muster.ConfigError, match="partition"):
        async with muster.open_scheduler(partition="two"):
            pass


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("partitions: [\n", "2: not YAML"),
        ("{}", "1: there is no partition"),
        ({"partitions": 5}, "partitions.*5"),
        ({"partitions": [], "more": 1}, "partitions|more"),
        ({"partitions": [{"queues": [{"name": "root", "queues": [{"name": "a b"}]}]}]}, "a b"),
        ({"partitions": [{"queues": [object()]}]}, "object"),
    ],
    ids=range(6),
)
async def test_a_bad_configuration(config: Any, message: str) -> None:  # noqa: ANN401
    async with service() as scheduler:
        with pytest.raises(muster.ConfigError, match=message):
            await scheduler.configure(config)
        await scheduler.add_app("b", "root.q")
    with pytest.raises(muster.ConfigError, match=message):
        async with muster.open_scheduler(config):
            pass


@pytest.mark.parametrize("name", ["nothing.yaml", ""])
async def test_a_configuration_that_is_not_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    async with service() as scheduler:
        with pytest.raises(OSError, match=r"No such file|Is a directory"):
            await scheduler.configure(path)
        with pytest.raises(OSError, match=r"No such file|Is a directory"):
            await scheduler.apply(path)


@pytest.mark.parametrize("name", ["queues.yaml", "conf/queues.json", " /etc/a b", r"C:\queues.yml"])
async def test_a_name_of_a_file_is_no_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text(TEXT, "utf-8")  # That there is one changes nothing.
    hint = f"{name!r} is not a %s; for a file, pass pathlib.Path({name!r})"

    async with service() as scheduler:
        with pytest.raises(muster.ConfigError) as configured:
            await scheduler.configure(name)
        with pytest.raises(muster.EventError) as applied:
            await scheduler.apply(name)
        with pytest.raises(muster.EventError) as deleted:
            await scheduler.delete(name)
    with pytest.raises(muster.ConfigError) as opened:
        async with muster.open_scheduler(name):
            pytest.fail("opened")

    assert str(configured.value) == str(opened.value) == hint % "configuration"
    assert str(applied.value) == str(deleted.value) == "manifest: " + hint % "Kubernetes object"


@pytest.mark.parametrize(
    "text", ["", "  ", "# nothing", "partitions:", "{}", "a: b", "one\ntwo", "x" * 5000]
)
async def test_what_is_no_name_of_a_file_is_refused_without_a_hint(text: str) -> None:
    async with service() as scheduler:
        with pytest.raises(muster.ConfigError) as configured:
            await scheduler.configure(text)
        with pytest.raises(muster.EventError) as applied:
            await scheduler.apply(text)

    assert "pathlib" not in f"{configured.value} {applied.value}"


@pytest.mark.parametrize("kind", ["text", "path", "mapping"])
async def test_a_config_map(kind: str, tmp_path: Path) -> None:
    """CONFIG-80: wherever a configuration is given."""
    text = f"kind: ConfigMap\ndata:\n  queues.yaml: |\n    {TEXT}"
    path = tmp_path / "config-map.yaml"
    path.write_text(text, "utf-8")
    forms: dict[str, Any] = {
        "text": text,
        "path": path,
        "mapping": {"kind": "ConfigMap", "data": {"queues.yaml": TEXT}},
    }
    async with muster.open_scheduler(forms[kind]) as scheduler:
        assert await queues(scheduler) == {"root", "root.new"}
