"""The tree of accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.importing.helpers import of, refusal, written
from tests.actors.importing.slurm.dumps import DUMPED, TREE
from tests.actors.importing.slurm.helpers import NODES, causes, dump_of, of_rows, row

_WITH_PARENTS = """\
Cluster|Account|User|ParentName|GrpTRES
example|science||root|cpu=28
example|chem||science|cpu=64,mem=24G
example|phys||science|gres/gpu=2
"""


@pytest.mark.parametrize("text", [TREE, DUMPED, _WITH_PARENTS])
def test_accounts_become_queues_with_their_limits(tmp_path: Path, text: str) -> None:
    tree = written(tmp_path / "tree.txt", text)
    rows = [row(1, Account="phys"), row(2, Account="science"), row(3, Account="other")]
    rows.append(row(4, Account="chem"))
    events, _ = of_rows(tmp_path, *rows, options=("--accounts", tree))

    assert [app["queue"] for app in of(events, "add_app")] == [
        "root.science.phys",
        "root.science.science",
        "root.other",
        "root.science.chem",
    ]
    (configuration,) = of(events, "configure")
    (partition,) = configuration["config"]["partitions"]
    other, science = partition["queues"][0]["queues"]
    assert other == {"name": "other"}
    assert science["resources"] == {"max": {"vcore": 28}}
    # An account never gets more than the one above it.
    assert science["queues"] == [
        {"name": "chem", "resources": {"max": {"vcore": 28, "memory": "24Gi"}}},
        {"name": "phys", "resources": {"max": {"nvidia.com/gpu": 2}}},
        {"name": "science"},
    ]


def test_what_queues_do_not_have_is_noted(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree.txt", TREE)
    _, summary = of_rows(tmp_path, row(1), options=("--accounts", tree))
    assert causes(summary, "not_in_feed") == {
        "has a fair share, which queues do not have": 3,
        "has a limit other than GrpTRES, which its queue does not get": 1,
        "limits node in its GrpTRES, which its queue does not": 1,
    }


def test_accounts_without_jobs_are_not_in_the_way_of_a_mapping_file(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree.txt", TREE)
    mapping = written(tmp_path / "queues.yaml", "queues: [{queue: 'root.{account}'}]\n")
    options = ("--accounts", tree, "--queues", mapping)
    events, _ = of_rows(tmp_path, row(1, Account="science"), options=options)
    (configuration,) = of(events, "configure")
    (partition,) = configuration["config"]["partitions"]
    assert partition["queues"][0]["queues"] == [
        {"name": "science", "resources": {"max": {"vcore": 28}}}
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Name|Parent\n", "has no column 'account'"),
        ("", "has no column 'account'"),
        (TREE.replace("|  ", "|").replace("| ", "|"), "does not say which account is below which"),
        ("Account|ParentName\na|b\nb|a\n", "is below itself"),
        ("Account|ParentName\na|b\n", "tree.txt:2: the account b above a is not there"),
        ("Account|ParentName\na|root\nb|root\na|b\n", "give the accounts of one cluster"),
        ("Account|ParentName\na\n", "tree.txt:2: has 1 columns where 2 are named"),
    ],
)
def test_a_file_that_is_no_tree_is_refused(tmp_path: Path, text: str, said: str) -> None:
    tree = written(tmp_path / "tree.txt", text)
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    assert said in refusal("slurm", source, "--nodes", NODES, "--accounts", tree)
