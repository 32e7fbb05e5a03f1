"""Jobs of sacct as applications with asks: shapes, estimates, priorities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.actors.cli.helpers import run
from tests.actors.importing.helpers import Event, events_of, written
from tests.actors.importing.slurm.samples import (
    FEED_NODES,
    NODES as SHOWN,
    TREE,
    ask_of,
    causes,
    dump_of,
    of_rows,
    of_text,
    row,
)


def test_a_job_of_one_node_is_one_ask(tmp_path: Path) -> None:
    events, summary = of_rows(tmp_path, row(7, Group="users"))
    assert events[0]["at"] == "2026-01-31T10:00:00Z"
    assert events_of(events, "add_app") == [
        {"app": "7", "queue": "root.phys", "user": "al", "groups": ["users"]}
    ]
    assert events_of(events, "add_ask") == [
        {
            "app": "7",
            "ask": "task",
            "resources": {"vcore": 2, "memory": 4 << 30},
            "run_for": 100,
            "estimate": 3600,
        }
    ]
    assert (summary["left_out"], summary["not_in_feed"], summary["in_another_form"]) == ([], [], [])


def test_a_job_comes_when_it_can_start(tmp_path: Path) -> None:
    events, summary = of_rows(tmp_path, row(7, Eligible="2026-01-31T10:00:03"))
    assert events[0]["at"] == "2026-01-31T10:00:03Z"
    assert causes(summary, "in_another_form") == {
        "could start later than it was submitted, and comes then": 1
    }
    # It cannot have started before.
    events, _ = of_rows(tmp_path, row(7, Eligible="2026-02-01T10:00:03"))
    assert events[0]["at"] == "2026-01-31T10:00:05Z"
    events, _ = of_rows(tmp_path, row(7, Submit="Unknown"))
    assert events[0]["at"] == "2026-01-31T10:00:00Z"


@pytest.mark.parametrize(
    ("state", "start", "elapsed", "cause"),
    [
        ("PENDING", "Unknown", "0", "waited when the dump was made"),
        ("CANCELLED by 5", "None", "0", "was cancelled before it started"),
        ("CANCELLED", "2026-01-31T10:00:05", "0", "was cancelled before it started"),
        ("DEADLINE", "Unknown", "0", "ended before it started"),
        ("COMPLETED", "2026-01-31T10:00:05", "", "it is not known how long it ran"),
    ],
)
def test_a_job_that_never_ran_is_left_out(
    tmp_path: Path, state: str, start: str, elapsed: str, cause: str
) -> None:
    end = "2026-01-31T10:00:01"
    bad = row(8, State=state, Start=start, ElapsedRaw=elapsed, End=end)
    _, summary = of_rows(tmp_path, row(7), bad)
    assert causes(summary) == {cause: 1}


@pytest.mark.parametrize(
    "state", ["FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED by 1", "DEADLINE"]
)
def test_a_job_that_ran_is_taken_however_it_ended(tmp_path: Path, state: str) -> None:
    assert ask_of(tmp_path, State=state)["run_for"] == 100


def test_a_job_that_has_not_ended_holds_its_room(tmp_path: Path) -> None:
    events, summary = of_rows(tmp_path, row(7, State="RUNNING", End="Unknown"))
    assert "run_for" not in events_of(events, "add_ask")[0]
    assert causes(summary, "in_another_form") == {"had not ended: it holds its room to the end": 1}


# IMPORT-32
def test_until_when_the_feed_is_like_what_was(tmp_path: Path) -> None:
    rows = [
        row(1),
        row(7, State="RUNNING", Start="2026-01-31T11:00:00", ElapsedRaw="600", End="Unknown"),
        row(8, State="PENDING", Start="Unknown", ElapsedRaw="0", End="Unknown"),
    ]
    assert of_rows(tmp_path, *rows)[1]["real_until"] == "2026-01-31T11:10:00Z"
    source = written(tmp_path / "dump.txt", dump_of(*rows))
    result = run("import", "slurm", source, "--nodes", FEED_NODES, "-o", tmp_path / "feed.jsonl")
    assert (
        "real until 2026-01-31T11:10:00Z: what waited then (1 job) is left out, and what ran (1 job) "
        "never ends: replay it with --until 2026-01-31T11:10:00Z\n"
    ) in result.stdout
    replay = f"next: muster replay {tmp_path / 'feed.jsonl'} --until 2026-01-31T11:10:00Z --report"
    assert replay in result.stdout
    earlier = of_rows(tmp_path, *rows, options=("--until", "2026-01-31T10:30:00Z"))[1]
    assert earlier["real_until"] == "2026-01-31T10:30:00Z"
    assert of_rows(tmp_path, row(1))[1]["real_until"] is None


def test_a_job_that_has_ended_ends_even_if_its_end_is_not_known(tmp_path: Path) -> None:
    assert ask_of(tmp_path, State="FAILED", End="Unknown")["run_for"] == 100


def test_each_run_of_a_job_is_a_job(tmp_path: Path) -> None:
    first = row(7, State="REQUEUED", ElapsedRaw="10")
    second = row(7, Submit="2026-01-31T10:00:15", Start="2026-01-31T10:02:15", Eligible="")
    events, summary = of_rows(tmp_path, first, second, row(8))
    assert [app["app"] for app in events_of(events, "add_app")] == ["7", "8", "7-run-2"]
    assert [ask["run_for"] for ask in events_of(events, "add_ask")] == [10, 100, 100]
    assert causes(summary, "in_another_form") == {"a further run of a job, as a job of its own": 1}


def test_a_record_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    _, summary = of_rows(tmp_path, row(7), row(8), row(7), row(8))
    assert causes(summary) == {"there already: the first record counts": 2}


def test_an_array_is_one_application_with_an_ask_for_each_task(tmp_path: Path) -> None:
    rows = [row("9_0"), row("9_3", ElapsedRaw="7"), row("9_[4-9%2]", State="PENDING"), row(10)]
    events, summary = of_rows(tmp_path, *rows)
    assert [app["app"] for app in events_of(events, "add_app")] == ["9", "10"]
    assert [
        (ask["app"], ask["ask"], ask["run_for"]) for ask in events_of(events, "add_ask")
    ] == [("9", "0", 100), ("9", "3", 7), ("10", "task", 100)]  # fmt: skip
    assert causes(summary) == {"waited when the dump was made": 1}


def test_components_of_a_heterogeneous_job_are_one_gang(tmp_path: Path) -> None:
    rows = [row("5+0"), row("5+0.batch"), row("5+1", ReqTRES="cpu=4,mem=1G"), row(6)]
    events, _ = of_rows(tmp_path, *rows)
    assert [app["app"] for app in events_of(events, "add_app")] == ["5", "6"]
    assert events_of(events, "add_gang") == [{"gang": "job-5", "min_member": 2}]
    assert [(ask["ask"], ask.get("gang")) for ask in events_of(events, "add_ask")] == [
        ("0", "job-5"),
        ("1", "job-5"),
        ("task", None),
    ]


def test_a_number_that_both_a_job_and_an_array_have_names_two_applications(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(5), row("5_1"), row("6_1"), row(6))
    names = [app["app"] for app in events_of(events, "add_app")]
    assert names == ["5", "5-tasks", "6", "6-job"]


def test_a_number_that_both_an_array_and_components_have_names_two_applications(
    tmp_path: Path,
) -> None:
    events, _ = of_rows(tmp_path, row("5_0"), row("5+0"), row("6+0"), row("6_0"), row(5))
    assert {(ask["app"], ask["ask"]) for ask in events_of(events, "add_ask")} == {
        ("5", "0"),
        ("5-parts", "0"),
        ("6", "0"),
        ("6-tasks", "0"),
        ("5-job", "task"),
    }


def test_jobs_of_two_clusters_may_have_the_same_number(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(5, Cluster="a"), row(5, Cluster="b"), row(6))
    assert [app["app"] for app in events_of(events, "add_app")] == ["5", "b-1-5", "6"]


def test_since_and_until(tmp_path: Path) -> None:
    later = row(8, Submit="2026-02-01T10:00:00", Eligible="2026-02-01T10:00:00")
    _, summary = of_rows(tmp_path, row(7), later, options=("--since", "2026-02-01T00:00:00Z"))
    assert causes(summary) == {"outside --since and --until": 1}


@pytest.mark.parametrize("name", ["--mapping", "--queues"])
def test_fields_choose_queues(tmp_path: Path, name: str) -> None:
    fields = {
        "Partition": "batch", "QOS": "high", "JobName": "train", "WCKey": "w", "Cluster": "c1",
        "Reservation": "class", "Group": "users",
    }  # fmt: skip
    path = ".".join(
        f"{{{name}}}"
        for name in (
            "account_path", "partition", "qos", "user", "group", "name", "reservation", "wckey",
            "cluster",
        )
    )  # fmt: skip
    mapping = written(
        tmp_path / "queues.yaml",
        f"queues:\n- {{account: other, queue: root.other}}\n- {{account: ph*, queue: 'root.{path}'}}\n",
    )
    tree = written(tmp_path / "tree.txt", TREE)
    events, summary = of_text(
        tmp_path,
        dump_of(row(7, **fields), row(8, Account="other", **fields), row(9, Account="")),
        "--queues", mapping, "--accounts", tree,
    )  # fmt: skip
    assert [app["queue"] for app in events_of(events, "add_app")] == [
        "root.science.phys.batch.high.al.users.train.class.w.c1",
        "root.other",
    ]
    assert causes(summary) == {"no queue for it: see --mapping": 1}


def test_jobs_without_an_account_go_to_the_queue_of_their_partition(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(7, Account="", Partition="batch"), row(8, Account=""))
    assert [app["queue"] for app in events_of(events, "add_app")] == ["root.batch", "root.default"]


def test_what_the_feed_does_not_say_is_noted(tmp_path: Path) -> None:
    _, summary = of_rows(tmp_path, row(7, Suspended="00:00:10", Reservation="class"))
    assert causes(summary, "not_in_feed") == {"ran in a reservation, which the feed has not": 1}
    assert causes(summary, "in_another_form") == {"was suspended: it holds its room meanwhile": 1}


_GPUS = "2x vcore=64,memory=256Gi,nvidia.com/gpu=8,mps=100"
GIB = 1 << 30


@pytest.mark.parametrize(
    ("values", "resources"),
    [
        ({"ReqTRES": "cpu=4,mem=16G,gres/gpu=2,gres/gpu:a100=2"},
         {"vcore": 4, "memory": 16 * GIB, "nvidia.com/gpu": 2}),
        ({"ReqTRES": "cpu=4,gres/gpu:a100=1,gres/gpu:h100=2"}, {"vcore": 4, "nvidia.com/gpu": 3}),
        ({"ReqTRES": "cpu=4,gres/mps=50"}, {"vcore": 4, "mps": 50}),
        ({"ReqTRES": "", "AllocTRES": "cpu=8,mem=2G,node=1"}, {"vcore": 8, "memory": 2 * GIB}),
        ({"ReqTRES": "", "ReqCPUS": "4", "ReqMem": "2Gc"}, {"vcore": 4, "memory": 8 * GIB}),
        ({"ReqTRES": "", "NCPUS": "4", "ReqMem": "2Gn"}, {"vcore": 4, "memory": 2 * GIB}),
        ({"ReqTRES": "", "AllocCPUS": "4", "ReqMem": "3G"}, {"vcore": 4, "memory": 3 * GIB}),
        ({"ReqTRES": "cpu=4,mem=0", "AllocTRES": "cpu=4,mem=9G"}, {"vcore": 4, "memory": 9 * GIB}),
    ],
)  # fmt: skip
def test_resources(tmp_path: Path, values: dict[str, str], resources: dict[str, int]) -> None:
    assert ask_of(tmp_path, nodes=_GPUS, **values)["resources"] == resources


def test_what_was_asked_for_counts_and_not_the_whole_node(tmp_path: Path) -> None:
    job = row(7, ReqTRES="cpu=1,mem=1G", AllocTRES="cpu=8,mem=1G,node=1")
    events, summary = of_rows(tmp_path, job)
    assert events_of(events, "add_ask")[0]["resources"] == {"vcore": 1, "memory": GIB}
    (cause,) = summary["not_in_feed"]
    assert cause["cause"].startswith("held more CPUs than it asked for")
    assert cause["example"] == "8 instead of 1"


def test_a_job_of_several_nodes_is_a_gang_whose_members_are_alike(tmp_path: Path) -> None:
    job = row(7, ReqTRES="cpu=8,mem=3G,node=1", AllocTRES="cpu=8,node=3", NNodes="3")
    events, _ = of_rows(tmp_path, job)
    assert events_of(events, "add_gang") == [{"gang": "job-7", "min_member": 3}]
    assert [
        (ask["ask"], ask["resources"], ask.get("count", 1), ask["gang"])
        for ask in events_of(events, "add_ask")
    ] == [
        ("large", {"vcore": 3, "memory": GIB}, 2, "job-7"),
        ("task", {"vcore": 2, "memory": GIB}, 1, "job-7"),
    ]


def test_sums_stay_the_same_when_they_are_divided(tmp_path: Path) -> None:
    job = row(7, ReqTRES="cpu=9,mem=10M,gres/gpu=5", NNodes="4")
    events, _ = of_rows(tmp_path, job, nodes=_GPUS)
    asks = events_of(events, "add_ask")
    for name, total in (("vcore", 9), ("memory", 10 << 20), ("nvidia.com/gpu", 5)):
        sizes = [ask["resources"].get(name, 0) for ask in asks for _ in range(ask.get("count", 1))]
        assert sum(sizes) == total
        assert sizes == sorted(sizes, reverse=True)
    assert [ask["ask"] for ask in asks] == ["size-1", "size-2", "size-3"]


def test_partitions_features_and_types_are_selectors_where_nodes_have_them(tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.txt", SHOWN)
    ask = ask_of(tmp_path, nodes, Partition="batch", Constraints="ib&avx512")
    assert ask["selector"] == {
        "partition.batch": "true", "feature.ib": "true", "feature.avx512": "true",
    }  # fmt: skip
    ask = ask_of(tmp_path, nodes, Partition="gpu", ReqTRES="cpu=1,gres/gpu=1,gres/gpu:a100=1")
    assert ask["selector"] == {"partition.gpu": "true", "gpu.a100": "true"}
    assert "selector" not in ask_of(tmp_path, Partition="batch")


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"Constraints": "a100|ib"}, "its constraint is not a list of features with &"),
        ({"Constraints": "[rack1*2]"}, "its constraint is not a list of features with &"),
        ({"Constraints": "tape"}, "asked for a feature that no node has"),
        ({"Partition": "old"}, "in a partition that no node has"),
        ({"Partition": "batch,gpu"}, "in a partition that no node has"),
        ({"ReqTRES": "cpu=1,gres/gpu:v100=1"}, "asked for a type of GPU that no node has"),
        ({"ReqTRES": "cpu=1,gres/gpu:v100=1,gres/gpu:a100=1"}, "asked for several types of GPU"),
        ({"ReqTRES": "cpu=1,gres/fpga=1"}, "asked for fpga, which no node has"),
        ({"ReqTRES": "cpu=1,license/matlab=2"}, "asked for what is not of a node, such as licences"),
        ({"ReqTRES": "cpu=64"}, "asks for more than any node has: it never starts"),
    ],
)  # fmt: skip
def test_what_cannot_be_modelled_is_noted(
    tmp_path: Path, values: dict[str, str], cause: str
) -> None:
    nodes = written(tmp_path / "nodes.txt", SHOWN)
    _, summary = of_rows(tmp_path, row(7, **values), nodes=nodes)
    assert causes(summary, "not_in_feed") == {cause: 1}


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"ReqTRES": "mem=4G"}, "it is not known how many CPUs it asked for"),
        ({"NNodes": "70000"}, "more than 65,536 nodes"),
    ],
)
def test_a_job_that_says_too_little_or_too_much_is_left_out(
    tmp_path: Path, values: dict[str, str], cause: str
) -> None:
    _, summary = of_rows(tmp_path, row(7), row(8, **values))
    assert causes(summary) == {cause: 1}


@pytest.mark.parametrize("share", ["shard", "mps"])
def test_shares_of_gpus_that_take_no_gpu_are_counted(tmp_path: Path, share: str) -> None:
    tres = f"cpu=1,gres/{share}=4,node=1"
    both = f"2x vcore=8,nvidia.com/gpu=2,{share}=8"
    cause = f"asked for {share}, which takes nothing of the GPUs in the feed"
    _, summary = of_rows(tmp_path, row(1, ReqTRES=tres), row(2), nodes=both)
    assert causes(summary, "not_in_feed")[cause] == 1
    _, summary = of_rows(tmp_path, row(1, ReqTRES=tres), nodes=f"2x vcore=8,{share}=8")
    assert cause not in causes(summary, "not_in_feed")


_CONF = """\
ClusterName=c
NodeName=n[1-2] CPUs=8 RealMemory=16000
PartitionName=DEFAULT Nodes=ALL MaxTime=2:00:00
PartitionName=short DefaultTime=30
PartitionName=long MaxTime=1-12
PartitionName=free MaxTime=UNLIMITED
PartitionName=odd DefaultTime=NONE MaxTime=INFINITE
"""
_OF_PARTITION = "says no time limit: its estimate is that of its partition"
_A_YEAR = "has no time limit: its estimate is a year, as Slurm plans it"
_UNKNOWN = "says no time limit: a backfill plans with the time that it really ran"
_YEAR_S = 365 * 86_400


def _estimate(asks: list[Event]) -> object:
    (ask,) = asks
    return ask.get("estimate")


# IMPORT-14: Time limits that jobs of Slurm do not say
@pytest.mark.parametrize(
    ("partition", "limit", "estimate", "cause"),
    [
        ("short", "5", 300, None),
        ("short", "Partition_Limit", 1800, _OF_PARTITION),
        ("short", "UNLIMITED", 7200, _OF_PARTITION),
        ("long", "", 129_600, _OF_PARTITION),
        ("free", "", _YEAR_S, _A_YEAR),
        ("free", "UNLIMITED", _YEAR_S, _A_YEAR),
        ("odd", "", _YEAR_S, _A_YEAR),
        ("gone", "UNLIMITED", _YEAR_S, _A_YEAR),
        ("gone", "", None, _UNKNOWN),
    ],
)
def test_the_partition_says_the_limit(
    tmp_path: Path, partition: str, limit: str, estimate: int | None, cause: str | None
) -> None:
    conf = written(tmp_path / "slurm.conf", _CONF)
    job = row(1, Partition=partition, TimelimitRaw=limit)
    # As --slurm-conf, and as --nodes, which then needs no --slurm-conf.
    for nodes, options in (("2x vcore=8,memory=16Gi", ("--slurm-conf", conf)), (conf, ())):
        events, summary = of_rows(tmp_path, job, nodes=nodes, options=options)
        assert _estimate(events_of(events, "add_ask")) == estimate
        reported = causes(summary, "in_another_form").keys() & {_OF_PARTITION, _A_YEAR, _UNKNOWN}
        assert reported == ({cause} if cause else set())


def test_without_the_partition_a_limit_is_not_known(tmp_path: Path) -> None:
    events, summary = of_rows(
        tmp_path,
        row(1, TimelimitRaw="", Timelimit="UNLIMITED"),
        row(2, TimelimitRaw="", Partition="short"),
    )
    assert [ask.get("estimate") for ask in events_of(events, "add_ask")] == [_YEAR_S, None]
    assert causes(summary, "in_another_form") == {_A_YEAR: 1, _UNKNOWN: 1}


@pytest.mark.parametrize(
    ("limit", "estimate"),
    [
        (None, _YEAR_S),  # as Slurm 22.05 writes it
        (0, None),
        ({"set": False, "infinite": True, "number": 0}, _YEAR_S),
        ({"set": True, "infinite": False, "number": 3}, 180),
        ({"set": False, "infinite": False, "number": 0}, None),
    ],
)
def test_a_document_says_that_there_is_no_limit(
    tmp_path: Path, limit: object, estimate: int | None
) -> None:
    job = {
        "job_id": 1,
        "state": {"current": "COMPLETED"},
        "required": {"CPUs": 1},
        "time": {
            "submission": 1769853600,
            "eligible": 1769853600,
            "start": 1769853600,
            "elapsed": 9,
            "limit": limit,
        },
    }
    events, _ = of_text(tmp_path, json.dumps({"jobs": [job]}))
    assert _estimate(events_of(events, "add_ask")) == estimate


_MULTI = """\
ClusterName=c
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=0
PriorityWeightQOS=5
"""


def _priorities(folder: Path, conf: str, *options: str) -> tuple[list[int], dict[str, int]]:
    """Import three jobs; return their priorities, and what is counted."""
    file = written(folder / "slurm.conf", conf)
    rows = [
        row(1, Partition="a", Priority="7"),
        row(2, Partition="b", Priority="4294901000", Eligible="2026-01-31T10:00:03"),
        row(3, Partition="c", Priority="4294901001"),
    ]
    events, summary = of_rows(folder, *rows, options=("--slurm-conf", file, *options))
    asks = {ask["app"]: ask.get("priority", 0) for ask in events_of(events, "add_ask")}
    counted = causes(summary, "not_in_feed") | causes(summary, "in_another_form")
    return [asks[name] for name in "123"], counted


# IMPORT-19: The priorities of jobs of Slurm
def test_first_in_first_out_is_the_order_of_arrival(tmp_path: Path) -> None:
    for conf in ("ClusterName=c\n", _MULTI):
        priorities, _ = _priorities(tmp_path, conf)
        assert priorities == [-192_016_800, -192_016_803, -192_016_800]
    assert _priorities(tmp_path, conf, "--priority", "none")[0] == [0, 0, 0]
    # A part of a slurm.conf does not say the order.
    assert _priorities(tmp_path, "PartitionName=a MaxTime=5\n")[0] == [0, 0, 0]


# IMPORT-19
def test_a_higher_tier_goes_before_who_came_first(tmp_path: Path) -> None:
    conf = f"{_MULTI}PartitionName=a\nPartitionName=b PriorityTier=3\nPartitionName=c\n"
    (first, second, third), counted = _priorities(tmp_path, conf)
    assert second > first == third
    assert counted["the priority of its jobs has its PriorityTier in it"] == 3
    tiers = "".join(f"PartitionName={name} PriorityTier={10 - number}\n" for number, name in
                    enumerate("abcdefghij"))  # fmt: skip
    first, second, third = _priorities(tmp_path, _MULTI + tiers)[0]
    assert 2**31 > first > second > third >= -(2**31)
    same = f"{_MULTI}PartitionName=DEFAULT PriorityTier=3\nPartitionName=a\nPartitionName=b\n"
    assert _priorities(tmp_path, same)[0][0] == -192_016_800
    _, counted = _priorities(tmp_path, conf, "--priority", "job")
    assert counted["has a PriorityTier, which does not count: see --priority arrival"] == 3


# IMPORT-19
def test_the_numbers_of_priority_basic_keep_their_order(tmp_path: Path) -> None:
    priorities, counted = _priorities(tmp_path, _MULTI, "--priority", "job")
    assert priorities == [7, 2_147_417_352, 2_147_417_353]
    assert counted["each priority is the one that sacct shows last"] == 1


# IMPORT-20: What of Slurm's order is not in the feed
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("arrival", {"fairshare", "qos"}),
        ("none", {"age", "fairshare", "qos"}),
        ("job", set[str]()),  # the number that sacct shows has all of them
    ],
)
def test_each_weight_of_a_job_is_counted(tmp_path: Path, source: str, expected: set[str]) -> None:
    texts = {
        "age": "age does not count",
        "fairshare": "use of the past does not count",
        "qos": "the QOS of a job does not count: see --priority qos",
    }
    _, counted = _priorities(tmp_path, _MULTI, "--priority", source)
    assert {name for name, text in texts.items() if text in counted} == expected
    assert not any("size" in text for text in counted)  # its weight is 0


# IMPORT-20
@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ("PreemptType=preempt/qos", "no job is preempted"),
        ("PriorityType=priority/basic", "who came first has the highest priority"),
    ],
)
def test_what_else_is_counted(tmp_path: Path, conf: str, text: str) -> None:
    assert _priorities(tmp_path, f"ClusterName=c\n{conf}\n")[1][text] == 1
    assert (
        "no job is preempted"
        not in _priorities(tmp_path, "ClusterName=c\nPreemptType=preempt/none\n")[1]
    )


# IMPORT-26: The age of jobs of Slurm
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", {"priority.aging": "1m480ms", "priority.aging.limit": "10000"}),
        ("PriorityMaxAge=1-0\n", {"priority.aging": "8s640ms", "priority.aging.limit": "10000"}),
        ("PriorityFlags=SMALL_RELATIVE_TO_TIME,NO_NORMAL_QOS\n", {}),
        ("PriorityWeightQOS=0\n", {}),
    ],
)
def test_jobs_age_beside_their_qos(tmp_path: Path, more: str, expected: dict[str, str]) -> None:
    qos = written(tmp_path / "qos.txt", "Name|Priority\nhigh|50\nlow|5\n")
    conf = written(tmp_path / "slurm.conf", _MULTI + more)
    options = ("--slurm-conf", conf, "--priority", "qos", "--qos", qos)
    events, summary = of_rows(tmp_path, row(1, QOS="high"), options=options)
    (root,) = events_of(events, "configure")[0]["config"]["partitions"][0]["queues"]
    found = {
        name: text
        for name, text in root.get("properties", {}).items()
        if name.startswith("priority.aging")
    }
    assert found == expected
    form = causes(summary, "in_another_form")
    assert ("jobs age by `priority.aging` of root, in steps" in form) is bool(expected)
    assert ("age does not count" in causes(summary, "not_in_feed")) is not bool(expected)


# IMPORT-26
@pytest.mark.parametrize("source", ["arrival", "job", "none"])
def test_where_priorities_have_another_origin_nothing_ages(tmp_path: Path, source: str) -> None:
    conf = written(tmp_path / "slurm.conf", _MULTI)
    options = ("--slurm-conf", conf, "--priority", source)
    events, _ = of_rows(tmp_path, row(1), options=options)
    assert "priority.aging" not in json.dumps(events_of(events, "configure"))


# IMPORT-20
def test_the_priority_of_the_qos_can_count(tmp_path: Path) -> None:
    qos = written(tmp_path / "qos.txt", "Name|Priority\nhigh|50\n")
    conf = written(tmp_path / "slurm.conf", _MULTI)
    options = ("--slurm-conf", conf, "--priority", "qos", "--qos", qos)
    events, summary = of_rows(tmp_path, row(1, QOS="high"), options=options)
    assert events_of(events, "add_ask")[0]["priority"] == 50
    assert causes(summary, "in_another_form")["the priority of the QOS goes first"]
