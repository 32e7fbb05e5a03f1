"""Reports: what a replay did, as one page to look at.

A :class:`Recorder` listens to a replay and keeps what is to be drawn, in bounded memory;
:func:`page` writes the page. A :class:`Board` says what is in each queue at the moment. Nothing is
decided here, and no file is written.
"""

from __future__ import annotations

from muster.report._board import Board, QueueNow, as_words
from muster.report._page.content import Content, Ending
from muster.report._page.page import page
from muster.report._recording.recorder import Recorder

__all__ = ["Board", "Content", "Ending", "QueueNow", "Recorder", "as_words", "page"]
