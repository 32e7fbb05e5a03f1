"""The cluster: nodes, partitions, accounts, and how Slurm schedules, in the configuration that is
made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.feeds import FeedError
from muster.importing.nodes import NodeFields
from muster.importing.slurm import nodes_of_slurm
from muster.importing.slurm.conf import Partition, SchedulerOptions, names_of, read_setup
from tests.actors.cli.helpers import run, written
from tests.actors.importing.helpers import events_of, refusal
from tests.actors.importing.slurm.samples import (
    CONF,
    DUMPED,
    FEED_NODES,
    NODES,
    TREE,
    causes,
    dump_of,
    of_rows,
    row,
)

_MIB = 1 << 20


def _nodes(folder: Path, text: str) -> list[NodeFields]:
    return nodes_of_slurm(str(written(folder / "slurm.conf", text)))


def test_nodes_with_defaults_ranges_and_partitions(tmp_path: Path) -> None:
    *compute, gpu = _nodes(tmp_path, CONF)
    assert [node.name for node in compute] == ["c01", "c02", "c03"]
    assert compute[0].capacity == {"vcore": 6, "memory": 15_000 * _MIB}
    assert list(compute[0].attributes) == [
        "partition.all", "partition.batch", "feature.ib", "feature.avx512",
    ]  # fmt: skip
    assert gpu.capacity == {"vcore": 8, "memory": 32_000 * _MIB, "nvidia.com/gpu": 2}
    assert list(gpu.attributes) == ["partition.all", "partition.gpu", "gpu.a100"]
    assert (compute[0].schedulable, gpu.schedulable) == (True, False)


def test_files_that_are_included(tmp_path: Path) -> None:
    written(tmp_path / "nodes.conf", "NodeName=n[1-2] CPUs=4 # small ones\n")
    nodes = _nodes(tmp_path, "ClusterName=c\nInclude nodes.conf\nDownNodes=n2 State=DOWN\n")
    assert [(node.name, node.schedulable) for node in nodes] == [("n1", True), ("n2", False)]
    assert nodes[0].capacity == {"vcore": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ClusterName=c\n", "has no line with NodeName"),
        ("NodeName=n1 CPUs=many\n", "slurm.conf:1: cpus: 'many' is not a whole number"),
        ("NodeName=n1 CPUs=1\nNodeName=n[1-2] CPUs=1\n", "slurm.conf:2: NodeName: n1 is there"),
        ("NodeName=n[1 CPUs=1\n", "slurm.conf:1: NodeName: 'n[1' is no list of nodes"),
        (
            "NodeName=node1 CPUs=1\nPartitionName=p Nodes=node2\n",
            "slurm.conf:2: Nodes: node2 is no",
        ),
        ("Include missing.conf\n", "missing.conf: cannot be read"),
        ("Include slurm.conf\n", "too deep"),
    ],
)
def test_errors_in_slurm_conf_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FeedError) as caught:
        _nodes(tmp_path, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[01-03,07],login", ["n01", "n02", "n03", "n07", "login"]),
        ("r[0-1]n[8-9]x", ["r0n8x", "r0n9x", "r1n8x", "r1n9x"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("", []),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert names_of(text) == names


@pytest.mark.parametrize(
    "text", ["n[1", "n]", "n[a-b]", "n[]", "n[0-99999999]", "n[0-999]m[0-9999]"]
)
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no list|has more than"):
        names_of(text)


def _one_line(text: str) -> str:
    return "\n".join(" ".join(part.split()) for part in text.split("\n\n")) + "\n"


@pytest.mark.parametrize("text", [NODES, _one_line(NODES)])
def test_what_scontrol_shows(tmp_path: Path, text: str) -> None:
    assert nodes_of_slurm(str(written(tmp_path / "nodes.txt", text))) == [
        NodeFields(
            "c1",
            {"vcore": 7, "memory": 15_000 * _MIB},
            dict.fromkeys(
                ["partition.batch", "partition.scavenge", "feature.ib", "feature.avx512"], "true"
            ),
        ),
        NodeFields(
            "g1",
            {"vcore": 8, "memory": 32_000 * _MIB, "nvidia.com/gpu": 2, "mps": 200},
            dict.fromkeys(["partition.gpu", "partition.scavenge", "gpu.a100"], "true"),
            schedulable=False,
        ),
    ]


def test_what_stands_before_the_first_node_is_passed_over(tmp_path: Path) -> None:
    text = "slurm_load_node: a warning\n\n" + NODES
    assert [node.name for node in nodes_of_slurm(str(written(tmp_path / "n", text)))] == [
        "c1",
        "g1",
    ]


def test_a_node_of_the_future_is_not_there(tmp_path: Path) -> None:
    text = NODES.replace("State=MIXED", "State=FUTURE")
    assert [node.name for node in nodes_of_slurm(str(written(tmp_path / "n", text)))] == ["g1"]


def test_the_same_node_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="has the node c1 twice"):
        nodes_of_slurm(str(written(tmp_path / "nodes.txt", NODES + "\n" + NODES)))


def test_what_other_importers_take(tmp_path: Path) -> None:
    assert len(nodes_of_slurm("3x vcore=4")) == 3
    file = written(tmp_path / "nodes.yaml", "- {node: n, capacity: {vcore: 4}}\n")
    assert [node.name for node in nodes_of_slurm(str(file))] == ["n"]
    with pytest.raises(FeedError):
        nodes_of_slurm(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    "text", ["JobID|State\n7|COMPLETED\n", "PARTITION AVAIL\nbatch* up\n", "partitions: []\n"]
)
def test_another_file_is_refused_with_what_is_right(tmp_path: Path, text: str) -> None:
    file = str(written(tmp_path / "nodes.txt", text))
    with pytest.raises(FeedError, match="neither what `scontrol show node` prints, nor") as caught:
        nodes_of_slurm(file)
    assert str(caught.value).startswith(f"{file}:1: begins with {text.split(maxsplit=1)[0]!r}")


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

    assert [app["queue"] for app in events_of(events, "add_app")] == [
        "root.science.phys",
        "root.science.science",
        "root.other",
        "root.science.chem",
    ]
    (configuration,) = events_of(events, "configure")
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
        "has a share, which counts only with --sshare": 3,
        "has a limit other than GrpTRES, which its queue does not get": 1,
        "limits node in its GrpTRES, which its queue does not": 1,
    }


def test_accounts_without_jobs_are_not_in_the_way_of_a_mapping_file(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree.txt", TREE)
    mapping = written(tmp_path / "queues.yaml", "queues: [{queue: 'root.{account}'}]\n")
    options = ("--accounts", tree, "--queues", mapping)
    events, _ = of_rows(tmp_path, row(1, Account="science"), options=options)
    (configuration,) = events_of(events, "configure")
    (partition,) = configuration["config"]["partitions"]
    assert partition["queues"][0]["queues"] == [
        {"name": "science", "resources": {"max": {"vcore": 28}}}
    ]


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_a_file_that_is_no_tree_is_refused(tmp_path: Path, text: str, message: str) -> None:
    tree = written(tmp_path / "tree.txt", text)
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    assert message in refusal("slurm", source, "--nodes", FEED_NODES, "--accounts", tree)


# As scontrol of Slurm 22.05 prints it.
_SHOWN = """\
Configuration data as of 2026-01-31T10:00:00
SchedulerParameters     = bf_interval=1
SchedulerTimeSlice      = 30 sec
SchedulerType           = sched/backfill
ScronParameters         = (null)

Slurmctld(primary) at cluster is UP
PartitionName=batch
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=00:10:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=2-01:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED

PartitionName=free
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
"""


def _read(folder: Path, text: str) -> SchedulerOptions:
    return read_setup(str(written(folder / "conf.txt", text)))


def test_what_scontrol_prints(tmp_path: Path) -> None:
    setup = _read(tmp_path, _SHOWN)
    assert setup.partitions == {
        "batch": Partition(default_s=600, most_s=49 * 3600, place=f"{tmp_path}/conf.txt:8"),
        "free": Partition(default_s=None, most_s=None, place=f"{tmp_path}/conf.txt:14"),
    }
    assert setup.scheduler == ("sched/backfill", f"{tmp_path}/conf.txt:4")
    assert setup.options["schedulerparameters"] == ("bf_interval=1", f"{tmp_path}/conf.txt:2")
    assert "scronparameters" not in setup.options
    # In one line for each, and without anything else.
    lines = _SHOWN[_SHOWN.index("PartitionName") :].replace("\n   ", " ")
    again = _read(tmp_path, lines)
    assert list(again.partitions) == ["batch", "free"]
    assert again == SchedulerOptions(again.partitions)


@pytest.mark.parametrize(
    ("written_as", "seconds"),
    [
        ("30", 1800),
        ("1:30", 120),  # minutes and seconds, rounded up
        ("1:30:00", 5400),
        ("1-12", 36 * 3600),
        ("1-12:30", 36 * 3600 + 1800),
        ("1-00:00:01", 86_460),
        ("UNLIMITED", None),
    ],
)
def test_forms_of_time_limits(tmp_path: Path, written_as: str, seconds: int | None) -> None:
    setup = _read(tmp_path, f"PartitionName=p MaxTime={written_as}\n")
    assert setup.partitions["p"].most_s == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PartitionName=p\nPartitionName=q MaxTime=1h\n", "conf.txt:2: MaxTime: '1h' is no time"),
        ("PartitionName=p AllowGroups=ALL\n   DefaultTime=x\n", "DefaultTime: 'x' is no time"),
        ("hello\n", "says neither SchedulerType nor partitions"),
        ("", "says neither SchedulerType nor partitions"),
    ],
)
def test_errors_in_the_setup_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FeedError) as caught:
        _read(tmp_path, text)
    assert message in str(caught.value)


_NO_ORDER = "no order of a queue is like it: the queues are greedy"
_PARAMETERS = "no queue has what it says of the scheduler"
_SPREADS = "has LLN=YES, and its jobs get the most used node first, as all do"
_LIMITS = "has jobs in several scopes, each of which may use all of its GrpTRES"

# Partitions `long` and `debug` share nodes; `gpu` has its own.
_CONF = """\
ClusterName=c
{options}
NodeName=n[1-2] CPUs=8 RealMemory=16000
NodeName=g1 CPUs=8 RealMemory=16000 Weight={weight}
PartitionName=long Nodes=n[1-2]
PartitionName=debug Nodes=n2 {debug}
PartitionName=gpu Nodes=g1
"""


def _made(
    folder: Path, conf: str, *options: object, nodes: object = FEED_NODES
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the partition of the configuration that is made, and the summary."""
    file = written(folder / "slurm.conf", conf)
    events, summary = of_rows(folder, row(1), options=("--slurm-conf", file, *options), nodes=nodes)
    (configure,) = events_of(events, "configure")
    (partition,) = configure["config"]["partitions"]
    return partition, summary


def _root(folder: Path, conf: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the queue root of the configuration that is made, and what is counted."""
    partition, summary = _made(folder, conf)
    return partition["queues"][0], causes(summary, "not_in_feed")


def _orders(queue: dict[str, Any], path: str = "root") -> dict[str, dict[str, str]]:
    """Return the properties of each queue that has some."""
    found = {path: queue["properties"]} if "properties" in queue else {}
    for child in queue.get("queues", []):
        found |= _orders(child, f"{path}.{child['name']}")
    return found


def _several(
    folder: Path, *options: object, of_conf: str = "", debug: str = "", weight: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Import jobs of three partitions; return the properties of queues, and the summary."""
    text = _CONF.format(options=of_conf, debug=debug, weight=weight)
    conf = written(folder / "slurm.conf", text)
    rows = [
        row(number, Account=account, Partition=partition)
        for number, (account, partition) in enumerate(
            [("phys", "long"), ("phys", "debug"), ("chem", "long"), ("phys", "gpu")], start=1
        )
    ]
    events, summary = of_rows(folder, *rows, options=options, nodes=conf)
    (configure,) = events_of(events, "configure")
    (partition,) = configure["config"]["partitions"]
    return _orders(partition["queues"][0]), summary


# IMPORT-15: The scheduler of Slurm
@pytest.mark.parametrize(
    ("conf", "order"),
    [
        ("ClusterName=c\nSchedulerType=sched/backfill\n", "backfill"),
        ("ClusterName=c\n", "backfill"),
        ("ClusterName=c\nschedulertype = sched/builtin # first come\n", "strict"),
        ("ClusterName=c\nSchedulerType=sched/hold\n", None),
        ("PartitionName=p MaxTime=5\n", None),  # a part of a slurm.conf does not say it
        (
            "Configuration data as of 2026-01-31\nSchedulerType           = sched/builtin\n",
            "strict",
        ),
    ],
)
def test_the_type_of_the_scheduler_is_the_order_of_root(
    tmp_path: Path, conf: str, order: str | None
) -> None:
    root, counted = _root(tmp_path, conf)
    assert root.get("properties", {}).get("scheduling.order") == order
    assert counted == ({_NO_ORDER: 1} if "hold" in conf else {})


def test_parameters_of_the_scheduler_are_counted(tmp_path: Path) -> None:
    conf = "ClusterName=c\nSchedulerParameters=bf_interval=1,bf_max_job_test=20\n"
    root, counted = _root(tmp_path, conf)
    assert counted == {_PARAMETERS: 1}
    assert root["properties"]["backfill.depth"] == "20"


def test_a_comment_says_where_order_and_nodes_come_from(tmp_path: Path) -> None:
    conf = written(tmp_path / "slurm.conf", "ClusterName=c\nSchedulerType=sched/backfill\n")
    made = tmp_path / "queues.yaml"
    of_rows(tmp_path, row(1), options=("--slurm-conf", conf, "--make-config", made))
    text = made.read_text(encoding="utf-8")
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert any("as SchedulerType is sched/backfill (" in line for line in comments)
    assert any("slurm.conf:2)" in line for line in comments)
    assert any("binpacking" in line and "CR_LLN" in line for line in comments)
    (partition,) = yaml.safe_load(text)["partitions"]
    assert partition["queues"][0]["properties"] == {
        "scheduling.order": "backfill",
        "backfill.depth": "100",
    }


# IMPORT-15
def test_without_a_slurm_conf_the_summary_says_that_the_queues_are_greedy(tmp_path: Path) -> None:
    _, summary = of_rows(tmp_path, row(1))
    nodes, order = summary["remarks"]
    assert nodes.startswith("nodes: the most used node first")
    assert order.startswith("the queues are greedy, as no file says the SchedulerType")
    assert "give --slurm-conf" in order


# IMPORT-15
def test_a_given_configuration_decides_the_order(tmp_path: Path) -> None:
    config = written(tmp_path / "queues.yaml", "partitions: [{queues: [{name: root}]}]")
    assert of_rows(tmp_path, row(1), options=("--config", config))[1]["remarks"] == []


# IMPORT-16: Scopes of Slurm
def test_partitions_that_share_nodes_have_one_scope(tmp_path: Path) -> None:
    orders, summary = _several(tmp_path)
    assert summary["queues"] == [
        "root.debug-long.chem",
        "root.debug-long.phys",
        "root.gpu.phys",
    ]
    depth = {"scheduling.order": "backfill", "backfill.depth": "100"}
    assert orders == {"root.debug-long": depth, "root.gpu": depth}


# IMPORT-16
def test_with_builtin_each_partition_has_a_scope(tmp_path: Path) -> None:
    orders, summary = _several(tmp_path, of_conf="SchedulerType=sched/builtin")
    strict = {"scheduling.order": "strict"}
    assert orders == {"root.long": strict, "root.debug": strict, "root.gpu": strict}
    assert "root.long: strict (long)" in summary["remarks"]


# IMPORT-16
@pytest.mark.parametrize(
    ("path", "scopes"),
    [
        # Accounts above partitions: all jobs of a scope are only below root.
        ("root.{account}.{partition}", {"root"}),
        ("root.{partition}", {"root"}),
        ("root.all.{scope}", {"root.all.debug-long", "root.all.gpu"}),
        ("root.{scope}.{partition}", {"root.debug-long", "root.gpu"}),
        ("root.jobs", {"root"}),
    ],
)
def test_a_scope_is_where_all_its_jobs_are(tmp_path: Path, path: str, scopes: set[str]) -> None:
    text = f'queues: [{{partition: gpu, queue: "{path}"}}, {{queue: "{path}"}}]'
    mapping = written(tmp_path / "mapping.yaml", text)
    assert _several(tmp_path, "--mapping", mapping)[0].keys() == scopes


# IMPORT-16
def test_nodes_without_partitions_are_shared_by_all(tmp_path: Path) -> None:
    conf = written(tmp_path / "conf.txt", "ClusterName=c\n")
    rows = (row(1, Partition="a"), row(2, Partition="b", Account="chem"))
    events, summary = of_rows(tmp_path, *rows, options=("--slurm-conf", conf))
    assert summary["queues"] == ["root.chem", "root.phys"]
    (configure,) = events_of(events, "configure")
    assert _orders(configure["config"]["partitions"][0]["queues"][0]).keys() == {"root"}


# IMPORT-16
def test_a_limit_of_an_account_stands_in_each_scope_and_is_counted(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree.txt", TREE)
    _, summary = _several(tmp_path, "--accounts", tree)
    assert "root.debug-long.science.phys" in summary["queues"]
    assert "root.gpu.science.phys" in summary["queues"]
    # The account `science` and `phys` below it have limits, and jobs in both scopes.
    assert causes(summary, "not_in_feed")[_LIMITS] == 2


# IMPORT-17: The depth of backfill
@pytest.mark.parametrize(
    ("parameters", "shared", "alone"),
    [
        ("defer", "100", "100"),
        ("bf_max_job_test=30", "30", "30"),
        ("bf_max_job_part=8", "16", "8"),  # for each partition, and two share nodes
        ("bf_job_part_count_reserve=3,bf_max_job_part=8", "6", "3"),
        ("bf_max_job_test=5,bf_job_part_count_reserve=4", "5", "4"),
        ("bf_job_part_count_reserve=0,bf_max_job_test=1000", "100", "100"),
        ("bf_max_job_test=many", "100", "100"),
    ],
)
def test_the_depth_is_that_of_the_site(
    tmp_path: Path, parameters: str, shared: str, alone: str
) -> None:
    orders, summary = _several(tmp_path, of_conf=f"SchedulerParameters={parameters}")
    assert orders["root.debug-long"]["backfill.depth"] == shared
    assert orders["root.gpu"]["backfill.depth"] == alone
    (said,) = (remark for remark in summary["remarks"] if remark.startswith("root.gpu: "))
    assert f"backfill with {alone} reservations at a time, from " in said


_NO_LIMIT = "its MaxTime is not the run.limit of each queue in which it has jobs"


# IMPORT-25: The longest time of a partition
@pytest.mark.parametrize(
    ("conf", "jobs", "limit", "counted"),
    [
        ("PartitionName=a MaxTime=2:00:00", "a", "2h", 0),
        (
            "PartitionName=a MaxTime=2:00:00\nPartitionName=b MaxTime=120",
            "a b",
            "2h",
            0,
        ),
        (
            "PartitionName=a MaxTime=2:00:00\nPartitionName=b MaxTime=60",
            "a b",
            None,
            2,
        ),
        ("PartitionName=a MaxTime=2:00:00\nPartitionName=b", "a b", None, 1),
        ("PartitionName=a MaxTime=1", "a", None, 1),  # it ran for longer
        ("PartitionName=a MaxTime=2:00:00", "a RUNNING", None, 1),
        ("PartitionName=a", "a", None, 0),
        ("PartitionName=unused MaxTime=60", "a", None, 0),
    ],
)
def test_the_longest_time_of_partitions_is_the_run_limit_where_it_says_the_same(
    tmp_path: Path,
    conf: str,
    jobs: str,
    limit: str | None,
    counted: int,
) -> None:
    file = written(tmp_path / "slurm.conf", f"SchedulerType=sched/hold\n{conf}\n")
    rows = [
        row(number, Account="phys", Partition=partition)
        for number, partition in enumerate(jobs.removesuffix(" RUNNING").split(), start=1)
    ]
    if jobs.endswith("RUNNING"):
        rows[-1] |= {"State": "RUNNING", "End": ""}
    events, summary = of_rows(tmp_path, *rows, options=("--slurm-conf", file))
    (configure,) = events_of(events, "configure")
    (partition,) = configure["config"]["partitions"]
    expected = {} if limit is None else {"root.phys": {"run.limit": limit}}
    assert _orders(partition["queues"][0]) == expected
    assert causes(summary, "not_in_feed").get(_NO_LIMIT, 0) == counted


# IMPORT-27: How long Slurm preempts no job
@pytest.mark.parametrize(
    ("conf", "runtime", "counted"),
    [
        ("PreemptExemptTime=00:10:00", "10m", 0),
        ("PreemptExemptTime=90\nPreemptType=preempt/qos\nGraceTime=60", "1h30m", 0),
        ("PreemptExemptTime=-1", None, 0),
        ("PreemptExemptTime=00:00:00", None, 0),
        ("PreemptExemptTime=soon", None, 1),
        ("GraceTime=60", None, 0),
    ],
)
def test_the_time_for_which_no_job_is_preempted_is_the_minimum_run_time(
    tmp_path: Path, conf: str, runtime: str | None, counted: int
) -> None:
    file = written(tmp_path / "slurm.conf", f"SchedulerType=sched/hold\n{conf}\n")
    events, summary = of_rows(tmp_path, row(1, Account="phys"), options=("--slurm-conf", file))
    (configure,) = events_of(events, "configure")
    root = configure["config"]["partitions"][0]["queues"][0]
    assert root.get("properties", {}).get("preemption.min.runtime") == runtime
    text = "is no time for which jobs are not preempted"
    assert causes(summary, "not_in_feed").get(text, 0) == counted


# IMPORT-18: The order of nodes
@pytest.mark.parametrize(
    ("conf", "policy", "counted"),
    [
        ("", "binpacking", {}),
        ("SelectTypeParameters=CR_Core_Memory", "binpacking", {}),
        ("SelectTypeParameters=CR_Core_Memory,CR_LLN", "fair", {}),
        ("PartitionName=a LLN=YES\nPartitionName=b", "binpacking", {_SPREADS: 1}),
        ("PartitionName=a LLN=YES\nPartitionName=b lln=yes", "fair", {}),
    ],
)
def test_slurm_fills_up_nodes_unless_it_says_otherwise(
    tmp_path: Path, conf: str, policy: str, counted: dict[str, int]
) -> None:
    partition, summary = _made(tmp_path, f"ClusterName=c\n{conf}\n")
    assert partition["nodesortpolicy"] == {"type": policy}
    assert causes(summary, "not_in_feed") == counted
    assert summary["remarks"][0].endswith(f"({policy})")


# IMPORT-18
def test_weights_of_nodes_are_counted(tmp_path: Path) -> None:
    text = "has a Weight above the lowest, and gets jobs as early as the others"
    assert text not in causes(_several(tmp_path)[1], "not_in_feed")
    assert causes(_several(tmp_path, weight=5)[1], "not_in_feed")[text] == 1


def test_the_summary_says_what_is_in_the_feed_in_another_form(tmp_path: Path) -> None:
    jobs = dump_of(row(7, Reservation="class", Suspended="00:00:10"))
    dump = written(tmp_path / "jobs.txt", jobs)
    output = run(
        "import", "slurm", dump, "--nodes", FEED_NODES, "-o", tmp_path / "feed.jsonl"
    ).stdout

    assert "\nconfiguration:\n  nodes: the most used node first" in output
    assert "\n  the queues are greedy, as no file says" in output
    _, _, forms = output.partition("\nnot in the feed:\n  1 job: ran in a reservation")
    assert "\nin the feed in another form:\n  1 job: was suspended" in forms
