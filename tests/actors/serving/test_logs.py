"""The lines of the log, and their writer."""

from __future__ import annotations

import io
import json
import logging
import threading

import pytest
from typing_extensions import override

from muster.service.logs import JsonLines, LogWriter, TextLines


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("muster.x", logging.WARNING, "", 0, message, arguments, None)
    made.created, made.msecs = 0.25, 250.0
    if fields:
        made.fields = fields
    return made


# ACCESS-20: control characters do no harm


@pytest.mark.parametrize("said", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\ud800b", "a\x00b"])
def test_control_characters_are_escaped(said: str) -> None:
    line = TextLines().format(record("%s", said))
    assert line.isprintable()
    assert line.startswith("1970-01-01T00:00:00.250Z warning a\\")
    assert json.loads(JsonLines().format(record("%s", said)))["message"] == said
    assert "\n" not in JsonLines().format(record("%s", said))


def test_a_trace_is_indented() -> None:
    made = record("a bug")
    try:
        raise ValueError("line\n2026-01-01 forged")
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    lines = TextLines().format(made).split("\n")
    assert lines[0].endswith("warning a bug")
    assert all(line.startswith("    ") for line in lines[1:])
    assert "forged" in json.loads(JsonLines().format(made))["trace"]


def test_fields_are_for_programs() -> None:
    made = record("it was read again", what="change")
    assert TextLines().format(made).endswith("warning it was read again")
    assert json.loads(JsonLines().format(made)) == {
        "at": "1970-01-01T00:00:00.250Z",
        "level": "warning",
        "what": "change",
        "message": "it was read again",
    }


class Stuck(io.StringIO):
    """Takes nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.began = threading.Event()

    @override
    def write(self, text: str) -> int:
        self.began.set()
        assert self.may.wait(60)
        return super().write(text)


def test_nobody_waits_for_a_reader_of_the_log() -> None:
    """What finds no room is lost, and counted."""
    stream = Stuck()
    log = logging.getLogger("muster.test")
    with LogWriter("text", stream):
        log.info("first")
        assert stream.began.wait(60)
        for _ in range(10_005):
            log.info("more")
        stream.may.set()

    lines = stream.getvalue().splitlines()
    assert len(lines) == 10_002
    assert lines[-1].endswith("5 lines of the log are lost, as nobody took them")


def test_warnings_of_others_are_in_the_log() -> None:
    stream = io.StringIO()
    with LogWriter("json", stream):
        logging.getLogger("muster.store").warning("the clock was set back")
        logging.getLogger("trio.serve_listeners").error("no file left")
    logging.getLogger("muster.store").warning("nobody hears this")
    told = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["the clock was set back", "no file left"]
