"""The configuration in force, whether another would be taken, and the dump of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from muster.config_files import MAX_FILE_BYTES, parse_configuration
from muster.service.input.bodies import body_of
from muster.service.yunikorn.answers import TEXT, YAML, answer, answer_json
from muster.service.yunikorn.objects import settings
from muster.service.yunikorn.objects.dump import everything, stacks
from muster.service.yunikorn.objects.forms import Made, Seen
from muster_core.errors import ConfigError, Problem

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.yunikorn.asked import Asked
    from muster_core.config.model import Configuration
    from muster_core.structures.steps import Steps


# REST-22
async def configuration(asked: Asked) -> Response:
    """Answer with the configuration in force: YAML, or JSON if exactly that is accepted."""
    text = await _text(asked)
    if asked.request.headers.get("accept") == "application/json":
        return await answer_json(
            asked.request, await trio.to_thread.run_sync(settings.as_map, text)
        )
    body = await trio.to_thread.run_sync(settings.as_yaml, text)
    return await answer(asked.request, body.encode(), media=YAML)


async def _text(asked: Asked) -> str:
    """Return the text of the configuration in force."""

    def read(seen: Seen) -> Steps[Configuration]:
        yield
        return seen.machine.configuration

    config = await asked.look(read)
    options = asked.service.options

    def find() -> str:
        file = None
        if options.config is not None:
            try:
                with options.config.open("rb") as stream:
                    file = stream.read(MAX_FILE_BYTES + 1)
            except OSError:
                file = None  # It is gone, or may not be read any more.
        return settings.text_of(config, file, options.partition)

    return await trio.to_thread.run_sync(find)


# REST-22
async def validation(asked: Asked) -> Response:
    """Answer whether a configuration would be taken; nothing changes."""
    body = await body_of(asked.request)
    partition = asked.service.options.partition

    def check() -> Made:
        try:
            if body.strip():
                parse_configuration(body, partition=partition)
        except ConfigError as error:
            reason = "\n".join(_told(problem) for problem in error.problems)
            return {"allowed": False, "reason": reason}
        text = body.decode("utf-8", "surrogateescape")
        return {
            "allowed": True,
            "checksum": settings.checksum(text),
            "checksumMatch": settings.has_its_checksum(text),
        }

    return await answer_json(asked.request, await trio.to_thread.run_sync(check))


def _told(problem: Problem) -> str:
    """Return what is wrong with a configuration, and in which line; it has no file."""
    place = "" if problem.line is None else f"line {problem.line}: "
    return place + str(attrs.evolve(problem, line=None))


# REST-23
async def dump(asked: Asked) -> Response:
    """Answer with everything."""
    now_us = asked.now_us

    def read(seen: Seen) -> Steps[Made]:
        return everything(seen, now_us)

    made = await asked.look(read)
    text = await _text(asked)
    made["logLevel"] = "INFO"
    made["config"] = await trio.to_thread.run_sync(settings.as_map, text)
    made["eventStreams"] = asked.streams.as_maps()
    return await answer_json(asked.request, made)


async def stack(asked: Asked) -> Response:
    """Answer with what each thread does."""
    return await answer(asked.request, stacks().encode(), media=TEXT)
