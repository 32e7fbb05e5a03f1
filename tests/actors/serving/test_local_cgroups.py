"""Commands run in cgroups of their own, and nothing of them is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster import _keeper as keeper
from muster.service.local.cgroups import LEAF, Cgroups, NoCgroupsError, own_cgroup
from muster.service.local.jobs import CommandResult, JobSpec, record
from tests.actors.serving.served import (
    APP,
    Served,
    decisions_until,
    ends_of,
    job,
    node,
    output,
    patiently,
    running_commands,
    submit,
)
from tests.actors.serving.test_local import runs
from tests.actors.serving.test_local_survivors import start_keeper

# A command with a process that leaves its session, and ends at SIGTERM.
LEAVES = (
    "cat /proc/self/cgroup; setsid sleep 600 & echo $! > {0}/left; echo began;"
    " i=0; until test -f {0}/go || test $i = 2400; do sleep 0.05; i=$((i + 1)); done; exit 4"
)


@pytest.fixture
def base() -> Iterator[Path]:
    """Make a real cgroup for a service, in which nothing may be left at the end."""
    try:
        made = own_cgroup() / f"muster-test-{os.getpid()}"
        made.mkdir()
    except (NoCgroupsError, OSError) as error:
        pytest.skip(f"needs a cgroup (version 2) that this process may divide: {error}")
    try:
        yield made
        patiently(lambda: not keeper.is_populated(made))
        # The leaf stays behind a service that was killed, for the next one.
        assert {one.name for one in made.iterdir() if one.is_dir()} <= {LEAF}
    finally:
        keeper.clear_cgroup(made)


def serving(folder: Path, base: Path, *arguments: str) -> Served:
    """Start a service in a cgroup, or in its leaf if there is one, as systemd can."""
    leaf = base / LEAF
    enter = f'test -d {leaf} && in={leaf} || in={base}; echo $$ > $in/cgroup.procs; exec "$@"'
    return running_commands(
        folder,
        *("--no-node", "--state", str(folder / "state"), *arguments),
        prefix=("sh", "-c", enter, "sh"),
    )


def begin(served: Served, folder: Path) -> Path:
    """Run a command that leaves its session; return its cgroup."""
    submit(served.client, node(), APP, job("k", LEAVES.format(folder)))
    decisions_until(served.client, ask="k", kind="bound")
    patiently(lambda: "began" in served.client.get("/api/v1/asks/a/k/logs").text)
    return cgroup_of(escaped_pid(folder))


def job_spec(folder: Path, command: str, cgroup: Path) -> JobSpec:
    about: dict[str, object] = {"app": "a", "ask": "k", "number": 1, "attempt": 1}
    shell = ("/bin/sh", "-c", command)
    log, report = folder / "1.log", folder / "1.json"
    env, where = dict(os.environ), str(folder)
    return JobSpec(shell, env, where, None, about, log, 10_000, report, 0.3, cgroup)


def escaped_pid(folder: Path) -> int:
    return int((folder / "left").read_text())


def cgroup_of(pid: int | str) -> Path:
    return own_cgroup(Path(f"/proc/{pid}"))


def keeper_pid(folder: Path) -> int:
    (found,) = (folder / "state" / "jobs").iterdir()
    pid: int = json.loads((found / "keeper.json").read_text())["pid"]
    return pid


# LOCAL-15, LOCAL-18


def test_a_command_has_a_cgroup_of_its_own(tmp_path: Path, base: Path) -> None:
    with serving(tmp_path, base) as served:
        cgroup = begin(served, tmp_path)
        assert cgroup.parent == base
        assert cgroup_of(served.process.pid) in {base, base / LEAF}
        assert f"/{cgroup.name}\n" in output(served.client, "k")
        (tmp_path / "go").touch()
        found = decisions_until(served.client, ask="k", kind="released")

        assert ends_of(found, "k") == [("failed", "exit status 4")]
        assert not runs(escaped_pid(tmp_path)), "it had left the process group"
        assert not cgroup.exists()


def test_a_command_that_cannot_be_started_leaves_no_cgroup(tmp_path: Path, base: Path) -> None:
    with serving(tmp_path, base) as served:
        submit(served.client, node(), APP, job("k", ["no-such-program"]))
        found = decisions_until(served.client, ask="k", kind="released", reason="removed")

        message = "'no-such-program': No such file or directory"
        assert ends_of(found, "k")[:3] == [("bind_failed", message)] * 3
        assert not any(base.glob("muster-*-*[0-9]"))


def test_commands_without_cgroups(tmp_path: Path, base: Path) -> None:
    with serving(tmp_path, base, "--no-cgroups") as served:
        assert begin(served, tmp_path) == base
        assert not any("cgroup" in line for line in served.lines)
        (tmp_path / "go").touch()
        decisions_until(served.client, ask="k", kind="released")
        assert runs(escaped_pid(tmp_path)), "nobody knows of it"
        os.kill(escaped_pid(tmp_path), signal.SIGKILL)


def test_a_cgroup_outlives_the_service_with_its_command(tmp_path: Path, base: Path) -> None:
    with serving(tmp_path, base) as served:
        cgroup = begin(served, tmp_path)
        served.kill()
    assert runs(escaped_pid(tmp_path))
    # The keeper removes it, though there is no service.
    (tmp_path / "go").touch()
    patiently(lambda: not cgroup.exists())
    assert not runs(escaped_pid(tmp_path))
    with serving(tmp_path, base) as served:
        found = decisions_until(served.client, ask="k", kind="released")

    assert ends_of(found, "k") == [("failed", "exit status 4")]


@pytest.mark.parametrize("has_record", [True, False])
def test_cgroups_of_killed_keepers(tmp_path: Path, base: Path, *, has_record: bool) -> None:
    with serving(tmp_path, base) as served:
        cgroup, kept = begin(served, tmp_path), keeper_pid(tmp_path)
        served.kill()
    os.kill(kept, signal.SIGKILL)
    patiently(lambda: not runs(kept))
    assert runs(escaped_pid(tmp_path))
    if not has_record:
        shutil.rmtree(tmp_path / "state" / "jobs" / cgroup.name.rpartition("-")[2])
    before = escaped_pid(tmp_path)
    (tmp_path / "go").touch()
    with serving(tmp_path, base) as served:
        found = decisions_until(served.client, ask="k", kind="released", reason="failed")

        assert [reason for reason, _ in ends_of(found, "k")] == ["bind_failed", "failed"]
        assert not runs(before)
        assert not cgroup.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_cgroup_of_another_user(tmp_path: Path, base: Path) -> None:
    with serving(tmp_path, base, "--run-as", "nobody") as served:
        submit(served.client, node(), APP, job("k", "id -un; cat /proc/self/cgroup"))
        decisions_until(served.client, ask="k", kind="released", reason="completed")
        name, *lines = output(served.client, "k").splitlines()

        assert name == "nobody"
        assert any(f"/{base.name}/muster-" in line for line in lines)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_unit_that_systemd_has_not_delegated(tmp_path: Path, base: Path) -> None:
    # LOCAL-15
    unit = base / "muster.service"
    unit.mkdir()
    try:
        with pytest.raises(NoCgroupsError, match=f"systemd has not delegated {unit} to the serv"):
            Cgroups(tmp_path, unit)
        os.setxattr(unit, "trusted.delegate", b"1")
        assert Cgroups(tmp_path, unit).base == unit
    finally:
        unit.rmdir()


def test_a_cgroup_with_cgroups_in_it_is_removed(base: Path) -> None:
    (base / "one" / "two").mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        signal.pause()
    (base / "one" / "two" / "cgroup.procs").write_text(str(pid))
    keeper.clear_cgroup(base / "one", is_ended=False)
    assert (base / "one" / "two").exists()

    keeper.clear_cgroup(base / "one")
    assert not (base / "one").exists()
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


def test_the_line_in_the_log(tmp_path: Path, base: Path) -> None:
    # LOCAL-16
    with serving(tmp_path, base) as served:
        (line,) = [line for line in served.lines if "cgroups below" in line]
    missing = {"cpu", "memory"} - set((base / "cgroup.controllers").read_text().split())

    assert f"commands run in cgroups below {base}" in line
    assert ("Delegate=" in line) is bool(missing)
    assert all(f"{one}: not available there" in line for one in missing)


def test_a_kernel_that_cannot_kill_cgroups(tmp_path: Path) -> None:
    # LOCAL-18: before Linux 5.14 each process is killed by itself.
    pid = os.fork()
    if pid == 0:
        signal.pause()
    (tmp_path / "sub" / "cgroup.kill").mkdir(parents=True)
    (tmp_path / "sub" / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    (tmp_path / "sub" / "cgroup.procs").write_text(f"{pid}\n")
    keeper.clear_cgroup(tmp_path / "sub")

    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


def test_a_record_that_cannot_be_written_leaves_no_cgroup(tmp_path: Path) -> None:
    # LOCAL-18
    (tmp_path / "cgroup").mkdir()
    order = job_spec(tmp_path, "true", tmp_path / "cgroup")
    with pytest.raises(FileNotFoundError):
        record(tmp_path / "no such folder", order)

    assert not (tmp_path / "cgroup").exists()


@pytest.fixture
def limiting_cgroup(base: Path) -> Path:
    """Return the same cgroup if it has the controllers that limit commands, as with systemd."""
    there = (base / "cgroup.controllers").read_text().split()
    if not {"cpu", "memory"} <= set(there):
        pytest.skip(f"needs the controllers cpu and memory in cgroups (version 2), not {there}")
    return base


def test_limits_of_the_kernel(tmp_path: Path, limiting_cgroup: Path) -> None:
    # LOCAL-16, LOCAL-17, LOCAL-18
    script = (
        f"own={limiting_cgroup}/$(sed -n 's/^0:.*\\///p' /proc/self/cgroup);"
        " cat $own/cpu.max $own/memory.max;"
        " i=0; while test $i -lt 100000; do i=$((i + 1)); done; cat $own/cpu.stat"
    )
    takes = [sys.executable, "-c", "b'x' * (300 << 20)"]
    service = {"op": "add_node", "node": "n", "capacity": {"vcore": 8, "memory": "8Gi"}}
    small = {"vcore": "100m", "memory": "64Mi"}
    with serving(tmp_path, limiting_cgroup) as served:
        assert cgroup_of(served.process.pid) == limiting_cgroup / LEAF
        submit(served.client, service, APP)
        submit(served.client, job("slow", script, resources=small))
        submit(served.client, job("large", takes, resources=small))
        submit(served.client, job("free", takes, resources={"vcore": 1}))
        decisions_until(served.client, ask="slow", kind="released", reason="completed")
        decisions_until(served.client, ask="free", kind="released", reason="completed")
        found = decisions_until(served.client, ask="large", kind="released")

        assert ends_of(found, "large") == [("failed", "killed by signal SIGKILL: out of memory")]
        cpu, memory, *lines = output(served.client, "slow").splitlines()
        assert (cpu, memory) == ("10000 100000", str(64 * 2**20))
        assert int(dict(line.split() for line in lines)["nr_throttled"]) > 0
    assert cgroup_of("self") != limiting_cgroup / LEAF
    assert not (limiting_cgroup / LEAF).exists()


# A folder that is laid out like a delegated cgroup: limits can be written on any machine.


def delegated_cgroup(folder: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    made = folder / "delegated"
    made.mkdir()
    (made / "cgroup.type").write_text("domain\n")
    (made / "cgroup.controllers").write_text(f"{controllers}\n")
    (made / "cgroup.subtree_control").write_text("\n")
    (made / "cgroup.procs").write_text(f"{os.getpid()}\n")
    return made


@pytest.mark.parametrize(
    ("resources", "limits"),
    [
        (
            {"vcore": 1500, "memory": 2**30},
            {"cpu.max": "150000 100000", "memory.max": "1073741824", "memory.swap.max": "0"},
        ),
        ({"vcore": 3, "example.com/x": 1}, {"cpu.max": "1000 100000"}),
        ({"memory": 4096}, {"memory.max": "4096", "memory.swap.max": "0"}),
        ({"device/gpu": 1000}, {}),
    ],
)
def test_limits(tmp_path: Path, resources: dict[str, int], limits: dict[str, str]) -> None:
    # LOCAL-16
    base = delegated_cgroup(tmp_path)
    cgroups = Cgroups(tmp_path / "state", base)
    made = cgroups.make(7, resources)

    assert (cgroups.limits, cgroups.unlimited) == (["cpu", "memory"], {})
    assert (base / LEAF / "cgroup.procs").read_text() == str(os.getpid())
    assert (base / "cgroup.subtree_control").read_text() == "+memory"
    assert {one.name: one.read_text() for one in made.iterdir()} == limits


def test_one_kind_of_limit(tmp_path: Path) -> None:
    # LOCAL-16
    cgroups = Cgroups(tmp_path / "state", delegated_cgroup(tmp_path, "cpu pids"))
    made = cgroups.make(7, {"vcore": 1000, "memory": 2**30})

    assert [one.name for one in made.iterdir()] == ["cpu.max"]
    assert cgroups.unlimited == {"memory": "not available there"}


def test_a_service_that_was_started_in_its_leaf(tmp_path: Path) -> None:
    # LOCAL-15
    base = delegated_cgroup(tmp_path)
    (base / "cgroup.subtree_control").write_text("cpu memory\n")
    (base / LEAF).mkdir()
    cgroups = Cgroups(tmp_path / "state", base / LEAF)

    assert cgroups.base == base
    assert cgroups.limits == ["cpu", "memory"]
    assert (base / "cgroup.subtree_control").read_text() == "cpu memory\n", "it is on already"
    assert [*(base / LEAF).iterdir()] == []
    cgroups.close()
    assert (base / LEAF).exists(), "it belongs to systemd"


def test_a_service_that_is_not_alone(tmp_path: Path) -> None:
    # LOCAL-15
    base = delegated_cgroup(tmp_path)
    (base / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")

    with pytest.raises(NoCgroupsError, match=f"other processes are in {base}, too: 1$"):
        Cgroups(tmp_path / "state", base)
    assert not any(one.is_dir() for one in base.iterdir())


def test_a_cgroup_of_somebody_else(tmp_path: Path) -> None:
    # LOCAL-15
    with pytest.raises(NoCgroupsError, match="does not belong to the service"):
        Cgroups(tmp_path / "state", tmp_path / "none")
    (tmp_path / "none").mkdir()
    with pytest.raises(NoCgroupsError, match="does not belong to the service"):
        Cgroups(tmp_path / "state", tmp_path / "none")


def test_the_end_of_the_service(tmp_path: Path) -> None:
    # LOCAL-18: as long as a command has a cgroup, everything stays as it is.
    base = delegated_cgroup(tmp_path)
    cgroups = Cgroups(tmp_path / "state", base)
    made = cgroups.make(7, {})
    cgroups.close()
    assert (base / "cgroup.subtree_control").read_text() == "+memory"
    cgroups.clean([7])
    assert made.exists()
    cgroups.clean([8])
    assert not made.exists()
    (base / LEAF / "cgroup.procs").unlink()
    cgroups.close()

    assert (base / "cgroup.subtree_control").read_text() == "-memory"
    assert (base / "cgroup.procs").read_text() == str(os.getpid())
    assert not (base / LEAF).exists()


@pytest.mark.parametrize(
    ("own", "mounts", "found"),
    [
        ("0::/a/b", ["31 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"], "/sys/fs/cgroup/a/b"),
        ("1:cpu:/x\n0::/", ["31 1 0:9 / /c/unified rw shared:4 - cgroup2 none rw"], "/c/unified"),
        (
            "0::/docker/1/x",
            [
                "30 1 0:8 / /sys/fs/cgroup rw - tmpfs tmpfs rw",
                "31 1 0:9 /docker/2 /one rw - cgroup2 cgroup2 rw",
                r"32 1 0:9 /docker/1 /with\040space rw - cgroup2 cgroup2 rw",
            ],
            "/with space/x",
        ),
        ("0::/../other", ["31 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"], None),
        ("0::/a", ["31 1 0:9 / /sys/fs/cgroup rw - tmpfs tmpfs rw"], None),
        ("4:memory:/a", ["31 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"], None),
    ],
)
def test_where_the_own_cgroup_is(
    tmp_path: Path, own: str, mounts: list[str], found: str | None
) -> None:
    # LOCAL-15
    (tmp_path / "cgroup").write_text(f"{own}\n")
    (tmp_path / "mountinfo").write_text("\n".join(mounts))
    if found is None:
        with pytest.raises(NoCgroupsError):
            own_cgroup(tmp_path)
    else:
        assert own_cgroup(tmp_path) == Path(found)


def test_a_system_without_cgroups(tmp_path: Path) -> None:
    # LOCAL-15
    with pytest.raises(NoCgroupsError, match=f"{tmp_path}/cgroup: No such file or directory"):
        own_cgroup(tmp_path)


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("kill -KILL $$", "killed by signal SIGKILL: out of memory"),
        ("exit 137", "exit status 137: out of memory"),
        ("exit 0", None),
    ],
)
def test_out_of_memory(tmp_path: Path, command: str, failure: str | None) -> None:
    # LOCAL-17: what the kernel would have counted.
    cgroup = tmp_path / "cgroup"
    cgroup.mkdir()
    (cgroup / "cgroup.procs").touch()
    (cgroup / "memory.events").write_text("low 0\nhigh 0\nmax 30\noom 2\noom_kill 2\n")
    (tmp_path / "jobs").mkdir()
    made = record(tmp_path / "jobs", job_spec(tmp_path, command, cgroup))
    assert start_keeper(made) == {}
    patiently(made.claim)
    result = made.result()

    assert result is not None
    assert (result.oom_kills, result.failure) == (2, failure)
    assert json.loads((tmp_path / "1.json").read_text())["oom_kills"] == 2
    assert (cgroup / "cgroup.procs").read_text() == "0", "it has moved there"


def test_failures_without_a_lack_of_memory() -> None:
    # LOCAL-3
    assert CommandResult(3).failure == "exit status 3"
    assert CommandResult(None, signal.SIGTERM).failure == "killed by signal SIGTERM"
