"""Configurations that a program gives to a scheduler, however it has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import muster
from muster.config_files import parse_configuration
from tests.actors.service import service

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
