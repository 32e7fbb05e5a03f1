"""Values as JSON."""

from __future__ import annotations

import json

import orjson


def as_json(value: object) -> bytes:
    """Return a value as JSON, with a line feed at the end; keys are texts."""
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an integer of more than 64 bits, or a text that is not Unicode
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
