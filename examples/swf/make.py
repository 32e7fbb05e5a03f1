#!/usr/bin/env python3
"""Make week.swf: a week of jobs in the Standard Workload Format, of no real machine.

Two users have many short jobs, three have few long ones on several nodes, as on many a cluster; by
day more jobs come than by night.
"""

from __future__ import annotations

import random
from pathlib import Path

HEADER = """\
; Version: 2.2
; Computer: made by make.py, no real machine
; MaxJobs: 400
; UnixStartTime: 1767571200
; TimeZoneString: UTC
; StartTime: Mon Jan 05 00:00:00 UTC 2026
; MaxNodes: 8
; MaxProcs: 128
; Queue: 1 short (up to an hour)
; Queue: 2 long
"""
JOBS = 400
DAY_S = 86_400
WEEK_S = 7 * DAY_S


def main() -> None:
    """Write the file."""
    chance = random.Random(2026)
    submits = sorted(chance.randrange(WEEK_S) for _ in range(6 * JOBS))
    submits = [at for at in submits if chance.random() < (0.9 if _is_day(at) else 0.1)]
    submits = sorted(chance.sample(submits, JOBS))
    lines = [_line(number, at, chance) for number, at in enumerate(submits, start=1)]
    text = HEADER + "".join(lines)
    (Path(__file__).parent / "week.swf").write_text(text, encoding="utf-8")


def _is_day(at_s: int) -> bool:
    return 8 <= at_s % DAY_S // 3600 < 18


def _line(number: int, at_s: int, chance: random.Random) -> str:
    is_short = chance.random() < 0.7
    if is_short:
        user, queue = chance.choice((1, 2)), 1
        processors = chance.choice((1, 2, 4, 8, 16))
        run_s = int(chance.lognormvariate(6.5, 0.8))
    else:
        user, queue = chance.choice((3, 4, 5)), 2
        processors = chance.choice((16, 32, 48, 64, 96))
        run_s = int(chance.lognormvariate(9.3, 0.6))
    is_cancelled = chance.random() < 0.02
    run, status = (-1, 5) if is_cancelled else (run_s, 0 if chance.random() < 0.1 else 1)
    values = (number, at_s, -1, run, processors, -1, -1, processors, 2 * run_s, -1, status, user,
              1, -1, queue, -1, -1, -1)  # fmt: skip
    return " ".join(str(value) for value in values) + "\n"


if __name__ == "__main__":
    main()
