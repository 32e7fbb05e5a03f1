"""Feeds: read them in three encodings, convert between encodings, and write decision logs.

A feed is read lazily, event by event, so it may be larger than memory. An invalid event
becomes a :class:`Refused` item; bytes that cannot be read raise :class:`FeedError`.
"""

from __future__ import annotations

from muster.feeds._encodings import read_raw
from muster.feeds._fields import Field
from muster.feeds._files import FeedError, Output
from muster.feeds._items import (
    APP_FIELDS,
    GANG_FIELDS,
    QUEUE_FIELDS,
    RESERVATION_FIELDS,
    UNSET,
    Content,
    Expect,
    ExpectedApp,
    ExpectedGang,
    ExpectedQueue,
    ExpectedReservation,
    FeedItem,
    Refused,
    Settle,
    Unset,
)
from muster.feeds._kinds import date_text, is_like_date, parse_date
from muster.feeds._operations import AT, OPS, Op
from muster.feeds._output import DecisionLog, convert, write_event
from muster.feeds._parser import (
    FeedOrigin,
    is_decision_map,
    is_feed,
    parse,
    read_events,
    read_feed,
    word_of,
)
from muster.feeds._raw import Encoding, Raw, RawEvent
from muster.feeds._state_directory import KeptFeed, is_directory, origin_of, run_again
from muster_core.config.tree import Plain

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
