"""This machine as a node: name, cores, memory, GPUs, and how a command learns of its GPUs."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, cast, final

import attrs
import trio

from muster_core.values.devices import MOST_DEVICES, DeviceStock

_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
"""The file with the memory that a container may use; it has a number only in a container."""

_MIB: Final = 1024 * 1024


def node_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname() or "localhost"


# LOCAL-11
def capacity() -> dict[str, int]:
    """Return what this machine has: cores that this process may use, and memory in bytes."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        limit = ""
    if limit.isdecimal():
        memory = min(memory, int(limit))
    return {"vcore": cores, "memory": memory // _MIB * _MIB}


_LOG: Final = logging.getLogger("muster.service")

GPU: Final = "gpu"
"""The type of devices that stands for the GPUs of a machine."""

_PATIENCE_S: Final = 20.0
"""How long a tool may take, in seconds; a driver that has to wake many GPUs takes a while."""

_CARD: Final = re.compile(r"card([0-9]{1,4})")

_AMD: Final = "AMD"


class _NoAnswerError(Exception):
    """A tool did not say which GPUs there are; the message says why."""


@final
@attrs.frozen
class Gpu:
    """One GPU, as the tool of its vendor describes it.

    Attributes:
        model: Its model, or None where the tool does not say.
        memory_bytes: Its memory, in bytes, or None where the tool does not say.
    """

    model: str | None
    memory_bytes: int | None


@final
@attrs.frozen
class Gpus:
    """The GPUs of a machine.

    Attributes:
        each: Each of them, in the order of its number.
    """

    each: tuple[Gpu, ...] = ()

    @classmethod
    def of(cls, count: int) -> Self:
        """Return so many GPUs of which nothing else is known."""
        return cls((Gpu(None, None),) * count)

    @property
    def devices(self) -> dict[str, object]:
        """The field ``devices`` of ``add_node``; the model only if all have the same one."""
        if not self.each:
            return {}
        models = {one.model for one in self.each}
        (model,) = models if len(models) == 1 else (None,)
        count = len(self.each)
        return {GPU: count if model is None else {"count": count, "model": model}}

    @property
    def description(self) -> str:
        """Their description for the log: how many there are of each model, with their memory."""
        counted: dict[str, int] = {}
        for one in self.each:
            memory = one.memory_bytes
            named = one.model or "GPU"
            size = "" if memory is None else f" with {memory // _MIB:,} MiB"
            counted[named + size] = counted.get(named + size, 0) + 1
        each = ", ".join(f"{count} {which}" for which, count in counted.items())
        mixed = len({one.model for one in self.each}) > 1
        return f"{each}; as their models differ, no ask can choose one" if mixed else each


# LOCAL-13
async def find_gpus(patience_s: float = _PATIENCE_S) -> Gpus:
    """Return the GPUs of this machine; none, and a warning in the log, if a tool does not answer.

    Args:
        patience_s: How long each tool may take, in seconds.
    """
    found: dict[str, tuple[Gpu, ...]] = {}
    for program, (arguments, read) in _TOOLS.items():
        path = shutil.which(program)
        if path is not None:
            try:
                found[program] = tuple(read(await _run_tool((path, *arguments), patience_s)))
            except _NoAnswerError as error:
                message = "%s does not tell the GPUs of this machine, which gets none from it: %s"
                _LOG.warning(message, program, error)
    several = [program for program, gpus in found.items() if gpus]
    if len(several) > 1:
        message = "there are GPUs of two vendors, and only those that %s tells of are devices"
        _LOG.warning(message, several[0])
    return Gpus(found[several[0]][:MOST_DEVICES] if several else ())


async def _run_tool(command: Sequence[str], patience_s: float) -> str:
    """Return the output of a tool.

    It runs in a thread that is left behind if need be: a tool that waits for a broken driver
    cannot even be killed.

    Raises:
        _NoAnswerError: If it fails, or takes too long.
    """

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience_s,
            check=False,
        )

    try:
        with trio.fail_after(patience_s):
            done = await trio.to_thread.run_sync(run, abandon_on_cancel=True)
    except (trio.TooSlowError, subprocess.TimeoutExpired):
        msg = f"it did not answer within {patience_s:g} s"
        raise _NoAnswerError(msg) from None
    except OSError as error:
        raise _NoAnswerError(str(error)) from None
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        why = (output + done.stderr.decode("utf-8", "replace")).strip().partition("\n")[0]
        msg = f"exit status {done.returncode}: {why or 'it says nothing'}"
        raise _NoAnswerError(msg)
    return output


def _read_nvidia(output: str) -> list[Gpu]:
    """Read lines of a name and a memory in MiB, in the order of the PCI bus.

    Raises:
        _NoAnswerError: If they are none.
    """
    found: list[Gpu] = []
    for line in output.splitlines():
        if line.strip():
            name, comma, size = map(str.strip, line.rpartition(","))
            if not comma:
                msg = f"not a name and a memory: {line!r}"
                raise _NoAnswerError(msg)
            # "[N/A]" where a GPU shares the memory of the machine
            found.append(Gpu(name or None, int(size) * _MIB if size.isdecimal() else None))
    return found


def _read_rocm(output: str) -> list[Gpu]:
    """Read an object with a field for each card; lines before it are warnings.

    Raises:
        _NoAnswerError: If there is none.
    """
    if not output.strip():
        return []
    try:
        answer, _ = json.JSONDecoder().raw_decode(output, output.index("{"))
    except ValueError:
        msg = f"not JSON: {output.strip().partition(chr(10))[0]!r}"
        raise _NoAnswerError(msg) from None
    cards: dict[int, dict[str, Any]] = {}
    for name, fields in answer.items():
        number = _CARD.fullmatch(name)
        if number is not None and isinstance(fields, dict):
            # The case of the fields differs between versions.
            each = cast("Mapping[str, Any]", fields)
            cards[int(number[1])] = {key.lower(): value for key, value in each.items()}
    return [_rocm_card(fields) for _, fields in sorted(cards.items())]


def _rocm_card(fields: Mapping[str, Any]) -> Gpu:
    series, size = fields.get("card series"), str(fields.get("vram total memory (b)", ""))
    model = series if isinstance(series, str) and series.strip() else ""
    if not model.upper().startswith(_AMD):
        model = f"{_AMD} {model}"  # so that the model says whose it is
    return Gpu(model.strip(), int(size) if size.isdecimal() else None)


_TOOLS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], list[Gpu]]]]] = {
    "nvidia-smi": (
        ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits"),
        _read_nvidia,
    ),
    "rocm-smi": (("--showproductname", "--showmeminfo", "vram", "--json"), _read_rocm),
}
"""The tools that know GPUs: their arguments, and how their answer is read."""


# LOCAL-14
def variables(
    held: Mapping[str, Sequence[int]], stocks: Mapping[str, DeviceStock]
) -> dict[str, str]:
    """Return the variables that name a command's devices; none on a node without any.

    Args:
        held: The numbers of the devices of its allocation, by type.
        stocks: The devices of its node, by type.
    """
    if not stocks:
        return {}
    numbers = {kind: held.get(kind, ()) for kind in sorted(stocks)}
    found = {"MUSTER_DEVICES": _joined_numbers([one for each in numbers.values() for one in each])}
    for kind, each in numbers.items():
        found[f"MUSTER_DEVICES_{kind.upper().replace('-', '_')}"] = _joined_numbers(each)
    if GPU in stocks:
        found |= _visible(numbers[GPU], stocks[GPU].model)
    return found


def _visible(numbers: Sequence[int], model: str | None) -> dict[str, str]:
    """Return the variables that restrict the libraries of GPUs to some devices."""
    if not _is_amd(model):
        # Without the order, CUDA counts the fastest first, and nvidia-smi as the bus does.
        return {"CUDA_VISIBLE_DEVICES": _joined_numbers(numbers), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    # HIP counts only those that ROCr leaves, and reads the variable of CUDA like its own.
    again = _joined_numbers(range(len(numbers)))
    return {
        "ROCR_VISIBLE_DEVICES": _joined_numbers(numbers),
        "HIP_VISIBLE_DEVICES": again,
        "CUDA_VISIBLE_DEVICES": again,
    }


def _is_amd(model: str | None) -> bool:
    """Return whether GPUs are of AMD: by their model, or as this machine has AMD's tool alone."""
    if model is not None and model.upper().startswith(_AMD):
        return True
    return shutil.which("nvidia-smi") is None and shutil.which("rocm-smi") is not None


def _joined_numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
