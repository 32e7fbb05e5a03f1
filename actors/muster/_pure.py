"""Which code of the core runs: its compiled modules, or the Python that they were compiled from.

Where both are, Python takes the compiled ones. If the environment variable ``MUSTER_PURE`` is set, it
takes the others, from the first import of :mod:`muster` on. The core itself reads no environment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import find_spec
from types import ModuleType
from typing import Final, final

from typing_extensions import override

_COMPILED: Final = "muster_core.structures.ranking"
"""A module that is compiled if any is."""


@final
class _Sources(MetaPathFinder):
    """Finds the modules of the core as Python, and nothing else."""

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith("muster_core."):
            return None
        found = (
            FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname, target)
            for folder in path
        )
        return next((spec for spec in found if spec is not None), None)


def take_sources() -> None:
    """Let Python find no compiled modules of the core."""
    sys.meta_path.insert(0, _Sources())


def is_compiled() -> bool:
    """Return whether the core runs compiled."""
    spec = find_spec(_COMPILED)
    assert spec is not None, "a part of the core is missing"
    return str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES))
