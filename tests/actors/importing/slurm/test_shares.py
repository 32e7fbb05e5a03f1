"""What ``sshare`` prints: weights of queues, and the usage with which a feed begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.actors.cli.helpers import run, written
from tests.actors.importing.helpers import events_of, refusal
from tests.actors.importing.slurm.samples import FEED_NODES, SHARES, causes, dump_of, of_rows, row

_NODES = ("--nodes", FEED_NODES)


def _with_shares(folder: Path, *options: object, text: str = SHARES) -> tuple[Any, Any]:
    shares = written(folder / "sshare.txt", text)
    rows = [row(1, Account="phys"), row(2, Account="science"), row(3, Account="chem")]
    return of_rows(folder, *rows, options=("--sshare", shares, *options))


def _refusal_of(*arguments: str | Path) -> str:
    result = run(*arguments, "-o", "feed.jsonl")
    assert result.exit_code == 2
    return result.stderr


def _root(events: Any) -> Any:  # noqa: ANN401 - a document
    (configuration,) = events_of(events, "configure")
    return configuration["config"]["partitions"][0]["queues"][0]


# IMPORT-29
def test_a_feed_begins_with_what_accounts_and_users_have_used(tmp_path: Path) -> None:
    events, summary = _with_shares(tmp_path)
    mib = 1 << 20
    assert events_of(events, "set_usage") == [
        {
            "queue": queue,
            **({"user": user} if user else {}),
            "usage": usage,
        }
        for queue, user, usage in [
            ("root.science", "", {"vcore": 4000, "memory": 2048 * mib}),
            ("root.science.science", "ada", {"vcore": 500, "memory": 48 * mib}),
            ("root.science.science", "bob", {"vcore": 100, "memory": 0}),
            ("root.science.phys", "", {"vcore": 3400, "memory": 2000 * mib}),
            ("root.science.phys", "ada", {"vcore": 3400, "memory": 2000 * mib}),
            # Without GrpTRESRaw it is RawUsage.
            ("root.chem", "", {"vcore": 7200}),
            # The jobs of `science` itself: what its users have used.
            ("root.science.science", "", {"vcore": 600, "memory": 48 * mib}),
        ]
    ]
    left_out = "has no queue in the feed: its usage is left out"
    assert causes(summary, "left_out") == {left_out: 1}


# IMPORT-30
def test_shares_become_weights(tmp_path: Path) -> None:
    root = _root(_with_shares(tmp_path)[0])
    assert root["properties"] == {
        "usage.half.life": "168h",
        "usage.users": "enabled",
        "application.sort.policy": "fair",
    }
    chem, science = root["queues"]
    assert chem["properties"] == {"queue.weight": "20"}
    assert science["properties"] == {"queue.weight": "80"}
    weights = {one["name"]: one["properties"]["queue.weight"] for one in science["queues"]}
    # Users have 2 shares, and those of the parent, which count as one.
    assert weights == {"phys": "30", "science": "3"}


# IMPORT-30
@pytest.mark.parametrize(
    ("setting", "half_life"), [("14-0", "336h"), ("12:00:00", "12h"), ("30", "30m"), ("0", "8760h")]
)
def test_the_half_life_is_that_of_the_site(tmp_path: Path, setting: str, half_life: str) -> None:
    text = f"PriorityType=priority/multifactor\nSchedulerType=sched/backfill\nPriorityDecayHalfLife={setting}\n"
    conf = written(tmp_path / "conf.txt", f"{text}PriorityWeightFairshare=10\n")
    events, summary = _with_shares(tmp_path, "--slurm-conf", conf)
    assert _root(events)["properties"]["usage.half.life"] == half_life
    # Past shares count only where priorities are equal: nobody has one.
    assert all("priority" not in ask for ask in events_of(events, "add_ask"))
    assert (
        "queues and users: who had less lately, for its weight, goes first (--sshare)"
        in (summary["remarks"])
    )
    assert not any("use of the past" in text for text in causes(summary, "not_in_feed"))


def test_a_half_life_that_is_no_time_is_refused(tmp_path: Path) -> None:
    conf = written(tmp_path / "conf.txt", "SchedulerType=sched/backfill\nPriorityDecayHalfLife=x\n")
    shares = written(tmp_path / "sshare.txt", SHARES)
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    options = ("--sshare", shares, "--slurm-conf", conf)
    message = refusal("slurm", source, *_NODES, *options)
    assert "conf.txt:2: PriorityDecayHalfLife: 'x' is no time, such as 7-0 or 12:00:00" in message


# IMPORT-29
def test_the_tree_of_accounts_can_be_another_one(tmp_path: Path) -> None:
    tree = written(
        tmp_path / "tree.txt", "Account|ParentName\nphys|root\nscience|root\nchem|root\n"
    )
    events, _ = _with_shares(tmp_path, "--accounts", tree)
    queues = {usage["queue"] for usage in events_of(events, "set_usage")}
    assert queues == {"root.science", "root.phys", "root.chem"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Account|User\n", "has no column 'rawshares' in its first line: make it with sshare"),
        (SHARES.replace("|20|", "|many|"), "sshare.txt:10: RawShares: 'many' is not a number"),
        (
            SHARES.replace("cpu=100", "cpu=-1"),
            "sshare.txt:6: GrpTRESRaw: cpu: '-1' is not a number",
        ),
        (SHARES.replace("7200.5", ""), "sshare.txt:10: RawUsage: '' is not a number"),
        (
            SHARES.replace("\n ", "\n").replace("\n ", "\n").replace("\n ", "\n"),
            "which account is below",
        ),
    ],
)
def test_a_file_that_sshare_does_not_print_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    shares = written(tmp_path / "sshare.txt", text)
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    assert message in refusal("slurm", source, *_NODES, "--sshare", shares)


# IMPORT-31
@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("{}", "root has no usage.half.life, without which its usage is not counted"),
        ("{usage.half.life: 1h}", "root.phys has no usage.users: enabled, without which"),
    ],
)
def test_a_configuration_that_does_not_count_usage_is_refused(
    tmp_path: Path, properties: str, message: str
) -> None:
    queues = f"[{{name: root, properties: {properties}, queues: [{{name: phys}}]}}]"
    config = written(tmp_path / "c.yaml", f"partitions: [{{name: default, queues: {queues}}}]\n")
    head = "Account|User|RawShares|RawUsage\nroot|||0\n phys||1|7\n  phys|ada|1|7\n"
    shares = written(tmp_path / "sshare.txt", head)
    source = written(tmp_path / "sacct.txt", dump_of(row(1, Account="phys")))
    assert message in refusal("slurm", source, *_NODES, "--sshare", shares, "--config", config)


def test_usage_of_an_account_in_several_scopes_is_left_out(tmp_path: Path) -> None:
    conf = "SchedulerType=sched/builtin\nNodeName=n1 CPUs=8 RealMemory=9000\n"
    conf += "PartitionName=a Nodes=n1\nPartitionName=b Nodes=n1\n"
    nodes = written(tmp_path / "slurm.conf", conf)
    shares = written(tmp_path / "s.txt", "Account|User|RawShares|RawUsage\nroot|||0\n phys||5|7\n")
    rows = [row(1, Account="phys", Partition="a"), row(2, Account="phys", Partition="b")]
    options = ("--sshare", shares, "--nodes", nodes)
    events, summary = of_rows(tmp_path, *rows, options=options)
    assert not events_of(events, "set_usage")
    assert sum(causes(summary, "left_out").values()) == 1
    weights = [one["queues"][0]["properties"] for one in _root(events)["queues"]]
    assert weights == [{"queue.weight": "5"}, {"queue.weight": "5"}]


# IMPORT-29, USAGE-14
def test_more_than_a_node_can_have(tmp_path: Path) -> None:
    events, _ = _with_shares(tmp_path, text=SHARES.replace("mem=2000", "mem=9000000000000"))
    assert str(9_000_000_000_000 * 2**20) in [
        usage["usage"].get("memory") for usage in events_of(events, "set_usage")
    ]


# IMPORT-29: of which moment the usage is, and in which unit
def test_the_summary_says_what_the_usage_is(tmp_path: Path) -> None:
    _, summary = _with_shares(tmp_path)
    (said,) = (one for one in summary["remarks"] if one.startswith("usage at the start:"))
    assert "GrpTRESRaw in seconds of each resource or RawUsage as vcore-seconds, as it was" in said
    text = "has no GrpTRESRaw: its RawUsage is taken as vcore-seconds"
    (change,) = (one for one in summary["in_another_form"] if one["cause"] == text)
    assert (change["what"], change["count"], change["example"]) == ("account", 1, "7200.5")


# IMPORT-29
def test_shares_without_usage(tmp_path: Path) -> None:
    events, summary = _with_shares(tmp_path, "--no-usage")
    assert not events_of(events, "set_usage")
    assert [one["properties"] for one in _root(events)["queues"]] == [
        {"queue.weight": "20"},
        {"queue.weight": "80"},
    ]
    assert "nobody has used anything at the start (--no-usage)" in summary["remarks"]
    assert summary["taken"]["user"] == _with_shares(tmp_path)[1]["taken"]["user"]
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    message = _refusal_of("import", "slurm", source, *_NODES, "--no-usage")
    assert "--no-usage needs --sshare" in message


# IMPORT-30
def test_past_shares_decide_among_equal_priorities(tmp_path: Path) -> None:
    shares = written(tmp_path / "sshare.txt", SHARES)
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    options = ("--sshare", shares, "--priority", "arrival")
    message = _refusal_of("import", "slurm", source, *_NODES, *options)
    assert "--sshare with --priority arrival: who came first would go first" in message
    _, summary = _with_shares(tmp_path, "--priority", "job")
    assert any(
        "goes first among those of the same priority (--priority job) (--sshare)" in one
        for one in summary["remarks"]
    )


# IMPORT-33
def test_what_is_not_taken_of_the_shares_is_named(tmp_path: Path) -> None:
    text = "SchedulerType=sched/backfill\nPriorityUsageResetPeriod=MONTHLY\n"
    text += "PriorityFlags=NO_FAIR_TREE\nPartitionName=batch Nodes=ALL "
    text += 'TRESBillingWeights="CPU=1.0,Mem=0.25G"\nNodeName=n1 CPUs=8 RealMemory=9000\n'
    conf = written(tmp_path / "slurm.conf", text)
    notes = _with_shares(tmp_path, "--slurm-conf", conf)[1]["not_in_feed"]
    found = {one["example"]: one["cause"] for one in notes}
    assert found["PriorityUsageResetPeriod=MONTHLY"] == "usage is halved with time, and never reset"
    assert found["PriorityFlags=NO_FAIR_TREE"] == "shares count as with FAIR_TREE alone"
    billing = "its TRESBillingWeights do not count: the largest part of the cluster does"
    assert found["batch, CPU=1.0,Mem=0.25G"] == billing
    usual = text.replace("MONTHLY", "NONE").replace("NO_FAIR_TREE", "FAIR_TREE").split(" TRES")[0]
    conf = written(tmp_path / "usual.conf", f"{usual}\nNodeName=n1 CPUs=8 RealMemory=9000\n")
    assert not _with_shares(tmp_path, "--slurm-conf", conf)[1]["not_in_feed"]
