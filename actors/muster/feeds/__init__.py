"""Feeds: read them in three encodings, convert between encodings, and write decision logs.

A feed is read lazily, event by event, so it may be larger than memory. An invalid event
becomes a :class:`Refused` item; bytes that cannot be read raise :class:`FeedError`.
"""

from __future__ import annotations

from muster.feeds._convert import convert
from muster.feeds._dates import date_text, is_like_date, parse_date
from muster.feeds._encodings.raw import Encoding, Plain, Raw, RawEvent
from muster.feeds._encodings.read import read_raw
from muster.feeds._encodings.target import Output
from muster.feeds._errors import FeedError
from muster.feeds._expect import (
    APP_FIELDS,
    GANG_FIELDS,
    QUEUE_FIELDS,
    RESERVATION_FIELDS,
    UNSET,
    Expect,
    ExpectedApp,
    ExpectedGang,
    ExpectedQueue,
    ExpectedReservation,
    Unset,
)
from muster.feeds._fields.table import Field
from muster.feeds._items import Content, FeedItem, Refused, Settle
from muster.feeds._kept import KeptFeed, is_directory, origin_of, run_again
from muster.feeds._log import DecisionLog
from muster.feeds._ops import AT, OPS, Op
from muster.feeds._origin import FeedOrigin
from muster.feeds._other_files import is_decision_map, is_feed, read_events, word_of
from muster.feeds._parse import parse, read_feed
from muster.feeds._written.events import write_event

__all__ = [
    "APP_FIELDS",
    "AT",
    "GANG_FIELDS",
    "OPS",
    "QUEUE_FIELDS",
    "RESERVATION_FIELDS",
    "UNSET",
    "Content",
    "DecisionLog",
    "Encoding",
    "Expect",
    "ExpectedApp",
    "ExpectedGang",
    "ExpectedQueue",
    "ExpectedReservation",
    "FeedError",
    "FeedItem",
    "FeedOrigin",
    "Field",
    "KeptFeed",
    "Op",
    "Output",
    "Plain",
    "Raw",
    "RawEvent",
    "Refused",
    "Settle",
    "Unset",
    "convert",
    "date_text",
    "is_decision_map",
    "is_directory",
    "is_feed",
    "is_like_date",
    "origin_of",
    "parse",
    "parse_date",
    "read_events",
    "read_feed",
    "read_raw",
    "run_again",
    "word_of",
    "write_event",
]
