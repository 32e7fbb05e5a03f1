"""Files without a line end: they are refused before they fill the memory. FEED-81."""

from __future__ import annotations

import tracemalloc
from io import RawIOBase

import pytest
from typing_extensions import Buffer, override

from muster.feeds import Encoding, FeedError, _yaml, read_raw
from muster.feeds._json import MAX_LINE_BYTES
from muster.feeds._yaml import MAX_VALUE_CHARACTERS

SIZE_BYTES = 300_000_000


class Endless(RawIOBase):
    """A large file without a line end, which takes no room.

    Attributes:
        taken: How many bytes were read.
    """

    def __init__(self, begin: bytes, repeated: bytes) -> None:
        super().__init__()
        self.taken = 0
        self._begin = begin
        self._repeated = repeated * (64 * 1024 // len(repeated))

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        if self.taken >= SIZE_BYTES:
            return 0
        if self.taken == 0:
            piece = self._begin
        else:
            at = (self.taken - len(self._begin)) % len(self._repeated)
            piece = self._repeated[at : at + len(view)]
        view[: len(piece)] = piece
        self.taken += len(piece)
        return len(piece)


@pytest.mark.parametrize("begin", [b"aaaa", b'{op: "', b"# "])
def test_yaml_ends_at_a_value_that_is_too_long(begin: bytes) -> None:
    file = Endless(begin, b"a")
    with pytest.raises(FeedError, match=f"^feed:1: a value is longer than {MAX_VALUE_CHARACTERS} "):
        list(read_raw(file, encoding=Encoding.YAML))

    assert file.taken < 1.1 * MAX_VALUE_CHARACTERS


def test_a_long_line_of_json_is_refused() -> None:
    file = Endless(b'{"op": "', b"a")
    tracemalloc.start()
    [event] = read_raw(file, encoding=Encoding.JSON_LINES)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert event.problem == f"the line is longer than {MAX_LINE_BYTES} bytes"
    assert (event.index, event.line, event.value) == (0, 1, None)
    assert file.taken >= SIZE_BYTES
    assert peak_bytes < 2.5 * MAX_LINE_BYTES


def test_a_list_of_events_may_stand_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_yaml, "MAX_VALUE_CHARACTERS", 70_000)
    file = Endless(b"[", b'{"op":"settle"}, ')
    for event in read_raw(file, encoding=Encoding.YAML):
        assert event.value == {"op": "settle"}
        if file.taken > 300_000:
            break

    assert file.taken > 300_000
