#!/usr/bin/env python3
"""Turn a table of Philly jobs into a feed that ``muster replay`` reads.

The table is a CSV file, plain or gzip-compressed, with a header. Columns:
``submit_s``, ``gpus`` and ``duration_s`` are needed (seconds and numbers of GPUs);
``vc`` is the virtual cluster (empty or missing: ``unknown``), ``job_id`` names the
job (missing: its row, from 0); every other column is ignored.

Every job becomes one application in the queue of its virtual cluster. The GPUs of a job
become one ask if a node has as many; with ``--wide gang`` those of a wider one become a
gang, whose members are whole nodes and one for the rest. Jobs that were submitted in the
same second stay in the order of the table.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO, get_args

import attrs
import click

GPU = "nvidia.com/gpu"
GPUS_PER_NODE = 8
UNKNOWN = "unknown"

WINDOW_S = (4_062_780, 9_333_120)
"""2017-10-01 00:00:00 and 2017-11-30 23:59:00, in seconds since 2017-08-14 23:27:00."""

SHORTEST_S = 1
"""What a job runs that took no whole second: ``run_for`` must be above 0."""

Wide = Literal["skip", "split", "gang"]
"""What becomes of a job of more GPUs than a node has."""

NOTES = {
    "window": "submitted outside the published window",
    "homeless": "of a virtual cluster for which the table of nodes has none",
    "wide": f"of more than {GPUS_PER_NODE} GPUs, which need several nodes (see --wide)",
    "split": f"of more than {GPUS_PER_NODE} GPUs split, and not all-or-nothing",
    "gang": f"of more than {GPUS_PER_NODE} GPUs as gangs",
}


@attrs.frozen
class Job:
    """One row of the table.

    Attributes:
        job_id: The name of the job.
        submit_s: When it was submitted, in seconds since the start of the trace.
        vc: Its virtual cluster.
        gpus: How many GPUs it uses, all of them as long as it runs.
        duration_s: How long it runs, in seconds.
    """

    job_id: str
    submit_s: int
    vc: str
    gpus: int
    duration_s: int


@attrs.frozen
class Options:
    """What the user chose.

    Attributes:
        vcs: The virtual clusters that are wanted; empty for all.
        window: Whether only the published window is wanted.
        nodes: Nodes in all, shared by everybody; or, for each virtual cluster, its own.
        shortest_first: Whether a job's priority is minus its duration.
        wide: What becomes of jobs of more GPUs than a node has.
        config: What the first event's ``file`` says, or None for no such event.
    """

    vcs: frozenset[str]
    window: bool
    nodes: int | Mapping[str, int]
    shortest_first: bool
    wide: Wide
    config: str | None


Event = dict[str, object]


def read_text(path: Path) -> io.TextIOWrapper:
    """Open a text file for reading, through gzip if its first bytes say so."""
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    stream = gzip.open(path, "rb") if zipped else path.open("rb")  # noqa: SIM115
    return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def read_rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row of a CSV file with its line.

    Raises:
        click.ClickException: The file cannot be read, or lacks a column.
    """
    try:
        with read_text(path) as stream:
            reader = csv.DictReader(stream, restval="", strict=True)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise click.ClickException(f"{path}: there is no column {missing[0]!r}")
            for row in reader:
                yield reader.line_num, row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise click.ClickException(f"{path}: {error}") from error


def whole(path: Path, line: int, row: Mapping[str, str], field: str, least: int) -> int:
    """Read a field that is a whole number of at most nine digits, so that it fits a priority.

    Raises:
        click.ClickException: It is none, or less than ``least``.
    """
    text = row[field]
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        raise click.ClickException(
            f"{path}, line {line}: {field} is {text!r}, not a whole number from {least} to 999999999"
        )
    return int(text)


def read_jobs(path: Path) -> list[Job]:
    """Read the whole table, in order of submission, of the same second in its own order."""
    jobs: list[Job] = []
    for line, row in read_rows(path, ("submit_s", "gpus", "duration_s")):
        job = Job(
            job_id=row.get("job_id") or str(len(jobs)),
            submit_s=whole(path, line, row, "submit_s", 0),
            vc=row.get("vc") or UNKNOWN,
            gpus=whole(path, line, row, "gpus", 1),
            duration_s=whole(path, line, row, "duration_s", 0),
        )
        jobs.append(job)
    return sorted(jobs, key=lambda job: job.submit_s)


def read_nodes(text: str) -> int | dict[str, int]:
    """Read ``--nodes``: a number, or the name of a table of nodes per virtual cluster.

    Raises:
        click.ClickException: It is a table that cannot be used.
    """
    if re.fullmatch("[1-9][0-9]{0,5}", text):
        return int(text)
    path = Path(text)
    if not path.is_file():
        raise click.ClickException(f"--nodes: {text!r} is neither a number nor a file")
    return {
        row["vc"]: whole(path, line, row, "nodes", 1)
        for line, row in read_rows(path, ("vc", "nodes"))
    }


def why_not(job: Job, options: Options) -> str | None:
    """Say why a job is left out, as a key of ``NOTES``, or None if it is not."""
    if options.window and not WINDOW_S[0] <= job.submit_s <= WINDOW_S[1]:
        return "window"
    if not isinstance(options.nodes, int) and job.vc not in options.nodes:
        return "homeless"
    if job.gpus > GPUS_PER_NODE and options.wide == "skip":
        return "wide"
    return None


def choose(jobs: Iterable[Job], options: Options) -> tuple[list[Job], Counter[str]]:
    """Keep the jobs that are wanted, and count the others by the reason."""
    kept: list[Job] = []
    left_out: Counter[str] = Counter()
    for job in jobs:
        if options.vcs and job.vc not in options.vcs:
            continue
        reason = why_not(job, options)
        if reason is None:
            kept.append(job)
        else:
            left_out[reason] += 1
    return kept, left_out


def node_events(options: Options) -> Iterator[Event]:
    """Yield the nodes: a shared pool, or those of each wanted virtual cluster."""
    if isinstance(options.nodes, int):
        pools: Mapping[str, int] = {"": options.nodes}
    else:
        pools = {
            vc: nodes for vc, nodes in options.nodes.items() if not options.vcs or vc in options.vcs
        }
    for vc, nodes in pools.items():
        for number in range(nodes):
            # Equally full nodes are taken in order of their names, as text.
            name = f"node-{number:04}"
            event: Event = {"op": "add_node", "node": f"{vc}-{name}" if vc else name}
            event["capacity"] = {GPU: GPUS_PER_NODE}
            if vc:
                event["attributes"] = {"vc": vc}
            yield event


def ask_event(job: Job, options: Options, ask: str, gpus: int) -> Event:
    """Give the event that asks for ``gpus`` on one node, for as long as the job runs."""
    event: Event = {"op": "add_ask", "app": job.job_id, "ask": ask, "resources": {GPU: gpus}}
    if options.shortest_first:
        event["priority"] = -job.duration_s
    if not isinstance(options.nodes, int):
        event["selector"] = {"vc": job.vc}
    event["run_for"] = max(job.duration_s, SHORTEST_S)
    return event


def gang_of(job: Job) -> str:
    """Name the gang of a job: a name that Kubernetes takes, whatever the job is called."""
    return f"job-{re.sub('[^a-z0-9]+', '-', job.job_id.lower())}".rstrip("-")


def wide_events(job: Job, options: Options) -> Iterator[Event]:
    """Yield what a job of several nodes asks for: whole nodes, then the rest on one more.

    The whole nodes go first: however a configuration sorts nodes, the rest then takes no
    empty one that they need.
    """
    nodes, rest = divmod(job.gpus, GPUS_PER_NODE)
    member: Event = {}
    if options.wide == "gang":
        member["gang"] = gang_of(job)
        yield {"op": "add_gang", **member, "min_member": nodes + (rest > 0)}
    yield ask_event(job, options, "worker", GPUS_PER_NODE) | {"count": nodes} | member
    if rest:
        yield ask_event(job, options, "rest", rest) | member


def job_events(job: Job, options: Options) -> Iterator[Event]:
    """Yield the application of a job and what it asks for."""
    yield {"op": "add_app", "at": job.submit_s, "app": job.job_id, "queue": f"root.{job.vc}"}
    if job.gpus <= GPUS_PER_NODE:
        yield ask_event(job, options, "gpus", job.gpus)
    else:
        yield from wide_events(job, options)


def feed(jobs: Iterable[Job], options: Options) -> Iterator[Event]:
    """Yield the whole feed: the configuration, the nodes, then the jobs as they came."""
    if options.config is not None:
        yield {"op": "configure", "at": 0, "file": options.config}
    yield from node_events(options)
    for job in jobs:
        yield from job_events(job, options)


def file_of_config(config: Path | None, out: str) -> str | None:
    """Give the path to the configuration as the feed has to write it: from its own folder."""
    if config is None:
        return None
    folder = Path.cwd() if out == "-" else Path(out).resolve().parent
    return Path(os.path.relpath(config.resolve(), folder)).as_posix()


@contextmanager
def open_out(out: str) -> Generator[TextIO]:
    """Open the output; a name that ends in ``.gz`` is compressed, the same bytes each time."""
    if out == "-":
        yield sys.stdout
    elif out.endswith(".gz"):
        with (
            Path(out).open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped,
            io.TextIOWrapper(zipped, encoding="utf-8", newline="\n") as stream,
        ):
            yield stream
    else:
        with Path(out).open("w", encoding="utf-8", newline="\n") as stream:
            yield stream


def write(events: Iterable[Event], out: str, form: str) -> None:
    """Write a feed; as YAML it is one list of maps in flow style, which is JSON again.

    Raises:
        click.ClickException: The file cannot be written.
    """
    prefix = "- " if form == "yaml" else ""
    try:
        with open_out(out) as stream:
            for event in events:
                stream.write(f"{prefix}{json.dumps(event)}\n")
    except BrokenPipeError:
        raise  # nobody reads on: click ends the program without a word
    except OSError as error:
        raise click.ClickException(f"{out}: {error}") from error


def say(kept: list[Job], left_out: Counter[str], wide: Wide) -> None:
    """Tell the user on standard error what is in the feed and what is not."""
    click.echo(f"{len(kept)} jobs", err=True)
    for reason, jobs in left_out.items():
        click.echo(f"left out: {jobs} jobs {NOTES[reason]}", err=True)
    several = sum(job.gpus > GPUS_PER_NODE for job in kept)
    if several:
        click.echo(f"{several} jobs {NOTES[wide]}", err=True)
    instant = sum(job.duration_s < SHORTEST_S for job in kept)
    if instant:
        click.echo(f"run {SHORTEST_S} s instead of none: {instant} jobs", err=True)


@click.command()
@click.argument("table", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--out", default="-", help="The feed; a name in .gz is compressed.")
@click.option("--vc", "vcs", multiple=True, help="Only this virtual cluster; may be repeated.")
@click.option("--window", is_flag=True, help="Only October and November 2017, as published.")
@click.option(
    "--nodes",
    required=True,
    help=f"How many nodes of {GPUS_PER_NODE} GPUs everybody shares; or a CSV file (columns vc, "
    "nodes) that gives each virtual cluster its own.",
)
@click.option(
    "--priority",
    type=click.Choice(["none", "sjf"]),
    default="none",
    help="sjf: a job's priority is minus its duration in seconds.",
)
@click.option(
    "--wide",
    type=click.Choice(get_args(Wide)),
    default="skip",
    help=f"Jobs of more than {GPUS_PER_NODE} GPUs: leave them out; split them into asks of one "
    "node each that start one by one; or make each a gang of such asks, which start all or "
    "nothing, as the real ones did.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The feed begins by loading this configuration.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "yaml"]),
    help="Default: yaml if the feed's name says so, else jsonl.",
)
def main(  # noqa: PLR0917 -- click passes every option by itself
    table: Path,
    out: str,
    vcs: tuple[str, ...],
    window: bool,
    nodes: str,
    priority: str,
    wide: Wide,
    config: Path | None,
    form: str | None,
) -> None:
    """Turn TABLE, a CSV file of Philly jobs, plain or .gz, into a feed.

    Example: to_feed.py jobs-0e4a51.csv --nodes 32 --priority sjf --config sjf.yaml -o sjf.jsonl
    """
    options = Options(
        vcs=frozenset(vcs),
        window=window,
        nodes=read_nodes(nodes),
        shortest_first=priority == "sjf",
        wide=wide,
        config=file_of_config(config, out),
    )
    jobs = list(read_jobs(table))
    unknown = sorted(options.vcs - {job.vc for job in jobs})
    if unknown:
        raise click.ClickException(f"{table}: has no virtual cluster {', '.join(unknown)}")
    kept, left_out = choose(jobs, options)
    if not kept:
        raise click.ClickException(f"{table}: no job of it is wanted")
    named_yaml = out.removesuffix(".gz").endswith((".yaml", ".yml"))
    write(feed(kept, options), out, form or ("yaml" if named_yaml else "jsonl"))
    say(kept, left_out, wide)


if __name__ == "__main__":
    main()
