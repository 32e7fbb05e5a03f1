"""Reading a state directory from a program."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import muster
from muster import store
from muster_core.events import Event


def read(directory: Path) -> int:
    """Go through all that is kept."""
    try:
        with store.StateReader(directory) as reader:
            assert_type(reader.meta.origin, str)
            assert_type(reader.summary(), store.Summary)
            assert_type(reader.checkpoints(), list[store.Checkpoint])
            assert_type(reader.newest_checkpoint(), store.Loaded | None)
            assert_type(reader.last(), store.Anchor)
            for batch in reader.batches(after=reader.batch_at(0), until=9):
                assert_type(batch, store.KeptBatch)
                assert_type(batch.events, tuple[Event, ...])
                assert_type(batch.decisions, tuple[muster.Announced, ...])
            return reader.batch_before_seq(7)
    except muster.StoreError as error:
        assert_type(error.path, Path)
        raise
