"""``muster import slurm``: its options, and what it needs."""

from __future__ import annotations

from pathlib import Path

from tests.actors.cli.helpers import run
from tests.actors.importing.helpers import of, refusal, written
from tests.actors.importing.slurm.dumps import QOS
from tests.actors.importing.slurm.helpers import NODES, dump_of, of_rows, row


def test_priorities_come_from_where_the_user_says(tmp_path: Path) -> None:
    qos = written(tmp_path / "qos.txt", QOS)
    rows = [
        row(1, QOS="urgent", Priority="4294967295"), row(2, QOS="normal", Priority="x"),
        row(3, QOS="gone", Priority="7"),
    ]  # fmt: skip

    def priorities(*options: object) -> list[int]:
        events, _ = of_rows(tmp_path, *rows, options=options)
        return [ask.get("priority", 0) for ask in of(events, "add_ask")]

    assert priorities() == [0, 0, 0]
    assert priorities("--priority", "job") == [2**31 - 1, 0, 7]
    assert priorities("--priority", "qos", "--qos", qos) == [100, 0, 0]


def test_a_time_zone(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(1), options=("--timezone", "America/New_York"))
    assert events[0]["at"] == "2026-01-31T15:00:00Z"


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    assert "give --nodes" in refusal("slurm", source)
    assert "give --nodes" in refusal("slurm", source, "--nodes", "2x memory=4Gi")
    bad = written(tmp_path / "qos.txt", "Name|Priority\nnormal|high\n")
    message = refusal("slurm", source, "--nodes", NODES, "--priority", "qos", "--qos", bad)
    assert "qos.txt:2: Priority: 'high' is not a whole number" in message
    for options, said in (
        (("--priority", "qos"), "go together"),
        (("--qos", str(bad)), "go together"),
        (("--timezone", "Mars/Olympus"), "is no time zone"),
        (("--timezone", "../etc"), "is no time zone"),
    ):
        result = run("import", "slurm", source, "-o", "x.jsonl", "--nodes", NODES, *options)
        assert result.exit_code == 2
        assert said in result.stderr
