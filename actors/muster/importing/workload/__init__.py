"""What all importers share: jobs go in, in any order, and a feed comes out."""

from __future__ import annotations
