"""Slurm for programs in asyncio; everything else is in :mod:`muster.slurm`.

Slurm is asked in trio, in a thread of its own. What a program passes in (``work``, ``done``,
``started``) is called in the program's loop.
"""

from __future__ import annotations

from muster.asyncio.slurm._slurm import Slurm, SlurmBinder, connect

__all__ = ["Slurm", "SlurmBinder", "connect"]
