"""The decision log: one map for each decision, as JSON Lines or msgpack."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

from muster.feeds._encodings.encode import to_json_line, to_msgpack
from muster.feeds._encodings.raw import Encoding
from muster.feeds._encodings.read import encoding_of
from muster.feeds._encodings.target import Output, Target
from muster.feeds._errors import FeedError
from muster_core.decisions import Announced
from muster_core.structures.steps import Steps, in_pieces

# DECISION-1
_ENCODERS: Final[Mapping[Encoding, Callable[[object], bytes]]] = {
    Encoding.JSON_LINES: to_json_line,
    Encoding.MSGPACK: to_msgpack,
}


@final
class DecisionLog:
    """Writes a decision log; the same decisions give the same bytes.

    Use it in a ``with`` statement, or call :meth:`close`.
    """

    def __init__(self, target: Target, *, encoding: Encoding | None = None) -> None:
        """Open a log.

        Args:
            target: A path, ``-`` for standard output, or a stream of bytes. A name that
                ends in ``.gz`` is compressed.
            encoding: JSON Lines or msgpack; None to take it from the name: msgpack if it
                ends in ``.msgpack`` or ``.mp``, otherwise JSON Lines.

        Raises:
            FeedError: If it cannot be opened, or its encoding is YAML.
        """
        name = str(Path(target)) if isinstance(target, (str, os.PathLike)) else ""
        encode = _ENCODERS.get(encoding or encoding_of(name) or Encoding.JSON_LINES)
        if encode is None:
            raise FeedError(name, "a decision log is JSON Lines (.jsonl) or msgpack (.msgpack)")
        self._encode = encode
        self._output = Output(target)

    def write(self, batch: Sequence[Announced]) -> None:
        """Write the decisions of one batch.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If they cannot be written for another reason.
        """
        encode = self._encode
        self._output.write(b"".join([encode(announced.as_map()) for announced in batch]))

    def write_in_steps(self, batch: Sequence[Announced]) -> Steps[None]:
        """Do what :meth:`write` does in steps, between which other tasks may run.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If they cannot be written for another reason.
        """
        for piece in in_pieces(batch):
            self.write(piece)
            yield

    def close(self) -> None:
        """Write the decisions that are still buffered, and close the log.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If it cannot be written for another reason.
        """
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
