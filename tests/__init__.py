"""Tests, and what they share. To import this imports Muster first, which reads MUSTER_PURE."""

import muster as muster
