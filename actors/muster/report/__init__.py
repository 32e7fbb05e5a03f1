"""Reports: a replay as one HTML page.

A :class:`Recorder` watches a replay and keeps what the page shows, in bounded memory;
:func:`page` returns the page. A :class:`Board` has the current state of each queue while a replay
runs. Nothing is decided here, and no file is written.
"""

from __future__ import annotations

from muster.figures.text import as_words
from muster.report._board import Board, QueueNow
from muster.report._page.content import Content, Ending
from muster.report._page.page import page
from muster.report._recorder import Recorder

__all__ = ["Board", "Content", "Ending", "QueueNow", "Recorder", "as_words", "page"]
