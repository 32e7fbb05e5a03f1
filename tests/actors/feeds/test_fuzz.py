"""Whatever stands in a feed: it is read, refused event by event, or ends in a clean error."""

from __future__ import annotations

import gzip
import io

from hypothesis import given, strategies as st

from muster.feeds import Encoding, FeedError, FeedItem, Raw, convert, read_feed
from tests.actors.feeds.strategies import FEEDS, write_feed

ENCODINGS = st.sampled_from(list(Encoding))
PIECES = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([
        b"\n", b"\t", b"- ", b"---\n", b"...\n", b": ", b"{", b"}", b"[", b"]", b"&a ", b"*a", b"!",
        b"!!int ", b"<<: ", b"? ", b"|\n", b">-\n", b"'", b'"', b"\\u", b"\\", b"#", b"%YAML 1.1\n",
        b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\x85", b"\xc2\x85", b"\xed\xa0\x80", b"NaN", b"1e999",
        b"\x81", b"\x91", b"\xc1", b"\xd4\xff\x00", b"\xdd\xff\xff\xff\xff", b"\xdf\x00\x0f\x42\x40",
        b"\xc7\x0c\xff", b"\x1f\x8b", b"{" * 300, b"\x91" * 300, b"9" * 5000,
    ]),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a feed of which some bytes were lost, doubled, moved or replaced."""
    data = write_feed(draw(FEEDS), draw(ENCODINGS), compressed=False)
    for _ in range(draw(st.integers(0, 4))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        piece = draw(st.one_of(PIECES, st.just(data[start:end] * 2)))
        data = data[:start] + piece + data[end if draw(st.booleans()) else start :]
    if draw(st.integers(0, 4)) == 0:
        data = gzip.compress(data)
        cut = draw(st.integers(0, len(data)))
        data = data[:cut] + draw(PIECES) + data[cut + draw(st.integers(0, 3)) :]
    return data


def until_the_end(data: bytes, encoding: Encoding | None) -> tuple[list[FeedItem], bool]:
    """Give what can be read, and whether all could."""
    found: list[FeedItem] = []
    try:
        found.extend(read_feed(io.BytesIO(data), encoding=encoding))
    except FeedError:
        return found, False
    return found, True


@given(mutated(), st.one_of(st.none(), ENCODINGS))
def test_every_feed_comes_to_a_clean_end(data: bytes, encoding: Encoding | None) -> None:
    found, _ = until_the_end(data, encoding)

    assert [item.index for item in found] == list(range(len(found)))
    assert [item.at_us for item in found] == sorted(item.at_us for item in found)
    str(found).encode()  # what is said of it can be written down


@given(mutated(), ENCODINGS, ENCODINGS)
def test_every_feed_that_can_be_read_can_be_converted(
    data: bytes, encoding: Encoding, target: Encoding
) -> None:
    found, complete = until_the_end(data, encoding)
    out = io.BytesIO()
    if complete:
        convert(io.BytesIO(data), out, source_encoding=encoding, target_encoding=target)
        again = list(read_feed(io.BytesIO(out.getvalue()), encoding=target))
        assert [(item.at_us, type(item.content)) for item in again] == [
            (item.at_us, type(item.content)) for item in found
        ]


@given(FEEDS, ENCODINGS)
def test_compressed_or_not_is_the_same(feed: list[Raw], encoding: Encoding) -> None:
    plain, zipped = (
        write_feed(feed, encoding, compressed=compressed) for compressed in (False, True)
    )

    assert until_the_end(plain, encoding) == until_the_end(zipped, encoding)
