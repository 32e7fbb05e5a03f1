"""What ``sacct --json`` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.actors.importing.helpers import imported, of, refusal, written
from tests.actors.importing.slurm.dumps import NEW_JSON
from tests.actors.importing.slurm.helpers import NODES, causes, of_text

_CLUSTER = Path(__file__).parents[4] / "examples" / "slurm" / "cluster"


def test_the_new_layout(tmp_path: Path) -> None:
    events, summary = of_text(
        tmp_path, NEW_JSON, "--priority", "job", nodes="4x vcore=8,memory=16Gi,nvidia.com/gpu=4"
    )
    assert summary["read"] == {"job": 2, "step": 2}
    ended, running = of(events, "add_ask")
    assert ended["resources"] == {"vcore": 2, "memory": 1 << 30, "nvidia.com/gpu": 1}
    assert (ended["count"], ended["run_for"], ended["priority"]) == (2, 60, 4000)
    assert (running["app"], running["ask"], running["resources"]) == ("8", "3", {"vcore": 1})
    assert "run_for" not in running
    # IMPORT-13: How long a job was expected to run
    assert (ended["estimate"], running.get("estimate")) == (3600, None)


def test_the_lines_and_the_json_of_the_same_jobs_give_the_same(tmp_path: Path) -> None:
    """These are of Slurm 22.05, which has the old layout."""
    nodes = _CLUSTER / "slurm.conf"
    document = json.loads((_CLUSTER / "sacct.json").read_text(encoding="utf-8"))
    names = {job["name"] for job in document["jobs"]}
    lines = (_CLUSTER / "sacct.txt").read_text(encoding="utf-8").splitlines()
    same = [line for line in lines[1:] if line.split("|")[1] in names and "." not in line[:8]]
    from_lines, _ = of_text(tmp_path, "\n".join([lines[0], *same]), nodes=nodes)
    text = json.dumps(document)
    from_json, summary = of_text(tmp_path, text, nodes=nodes)

    def asks(events: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps(of([event], "add_ask")) for event in map(_bare, events))

    assert summary["taken"]["job"] == len(same)
    assert asks(from_json) == asks(from_lines)


def _bare(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without its instant, and without what the lines have no column for."""
    return {name: value for name, value in event.items() if name not in ("at", "estimate")}


def test_numbers_that_are_not_set_are_not_known(tmp_path: Path) -> None:
    unset = {"set": False, "infinite": False, "number": 5}
    job = json.loads(NEW_JSON)["jobs"][0] | {"priority": unset, "allocation_nodes": unset}
    text = json.dumps({"jobs": [job, 5]})
    _, summary = of_text(tmp_path, text, "--priority", "job")
    assert causes(summary)["not a map of fields"] == 1


def test_half_of_a_character_is_written_as_an_escape(tmp_path: Path) -> None:
    job = json.loads(NEW_JSON)["jobs"][0] | {"user": "a\ud800"}
    events, _ = of_text(tmp_path, json.dumps({"jobs": [job, "\ud800"]}))
    assert of(events, "add_app")[0]["user"] == "a\\ud800"


def test_a_document_is_read_in_pieces_however_it_is_laid_out(tmp_path: Path) -> None:
    job = json.loads(NEW_JSON)["jobs"][0]
    jobs = [job | {"job_id": number} for number in range(1, 800)]
    text = json.dumps({"meta": {"jobs": []}, "jobs": jobs, "warnings": []}, indent=2)
    assert len(text) > 1 << 20
    file = written(tmp_path / "sacct.json", text)
    events, _ = imported("slurm", file, "--nodes", NODES)
    assert [app["app"] for app in of(events, "add_app")] == [str(n) for n in range(1, 800)]


def test_what_is_no_such_document_is_refused_with_its_line(tmp_path: Path) -> None:
    for text, said in (
        ('{"meta": 1}', "has no list under 'jobs'"),
        ('{"jobs": [\n{"job_id": 1},\n{"job_id": }]}', "sacct.json:3: not JSON"),
        ('{"jobs": [\n', "sacct.json:2: not JSON"),
        ('{"jobs": [1e5' + "[" * 50_000, "not JSON"),
        ('{"jobs": [NaN]}', "NaN is no number"),
    ):
        message = refusal("slurm", written(tmp_path / "sacct.json", text), "--nodes", NODES)
        assert said in message
