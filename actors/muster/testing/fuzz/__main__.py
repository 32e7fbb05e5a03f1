"""Run the fuzzer with ``python -m muster.testing.fuzz``."""

from __future__ import annotations

from muster.testing.fuzz._cli import command

if __name__ == "__main__":
    command(prog_name="python -m muster.testing.fuzz")
