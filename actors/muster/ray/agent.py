"""The agent: the process that is connected to Ray, for a program that is not.

A process that is connected to Ray is ended by Ray when the cluster does not answer for a minute.
The program must not be, so it starts this file by its path, with any Python that has Ray, and
speaks with it through pipes (``_messages.py``). Nothing else imports ray.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import platform
import signal
import sys
import types
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from muster.ray._messages import NodeMap

_HERE: Final = Path(__file__).resolve().parent

_DETACHED: Final = "muster/"
"""The prefix of the names of the actors of detached runs."""

_TERMS: Final = "muster/terms"
"""The namespace, among the keys of Ray's head, of the terms of leaders."""

_OURS: Final = frozenset(
    {
        "fallback_strategy",
        "label_selector",
        "max_calls",
        "num_returns",
        "placement_group",
        "placement_group_bundle_index",
        "placement_group_capture_child_tasks",
        "retry_exceptions",
    }
)
"""Options of Ray's tasks that an ask cannot set, beside those that are always set."""


_ABOUT: Final = ("node", "cpus", "gpus", "memory", "resources", "group")


class _Actor:
    """The actor of a detached run: all calls but ``begin`` come through while it works."""

    def __init__(self, handle: Any) -> None:  # noqa: ANN401 - Ray has no types
        self.handle = handle
        self.begin = handle.begin
        self.about = handle.about.options(concurrency_group="io")
        self.items = handle.items.options(concurrency_group="io")
        self.end = handle.end.options(concurrency_group="io")


class Ray:
    """The engine of ``_agent_interfaces.py``, by the package ``ray``."""

    def __init__(self) -> None:
        self._ray: Any = None
        self._runner: Any = None
        self._keeper = ""
        self._tasks: dict[int, Any] = {}
        #: The tasks of which Ray's head knows.
        self._known: set[int] = set()
        self._small: dict[str, Any] = {}

    def load(self) -> None:
        """Import Ray.

        Raises:
            ImportError: If this Python does not have it.
        """
        self._ray = importlib.import_module("ray")

    def connect(self, address: str, namespace: str, *, log_to_driver: bool) -> tuple[str, str]:
        """Connect; return the versions of Ray and Python."""
        options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        # The agent is ended by the end of its input; Ray need not care for SIGTERM.
        talks = logging.getLogger("ray._private.worker")
        talks.addFilter(lambda record: "SIGTERM" not in record.getMessage())
        self._ray.init(
            address=address,
            namespace=namespace,
            log_to_driver=log_to_driver,
            logging_level=logging.WARNING,
            **options,
        )
        self._ship()
        return self._ray.__version__, platform.python_version()

    def _ship(self) -> None:
        """Make the runner ready to be sent to the workers."""
        self._runner = importlib.import_module("muster.ray.runner")
        pickler = importlib.import_module("ray.cloudpickle")
        for name in ("muster.ray.runner", "muster._keeper"):
            pickler.register_pickle_by_value(sys.modules[name])
        self._keeper = (_HERE.parent / "_keeper.py").read_text(encoding="utf-8")

    def disconnect(self) -> None:
        """End the connection, and with it all that is not detached."""
        self._ray.shutdown()

    # REPLICA-15
    def highest_term(self, scheduler: str, term: int) -> int:
        """Record a term of a scheduler in Ray's head; return the highest one there."""
        # Each term has a key of its own: a leader that writes one and then reads all misses none.
        keys = importlib.import_module("ray.experimental.internal_kv")
        own = f"{self._ray.get_runtime_context().namespace}/{scheduler}/"
        keys._internal_kv_put(f"{own}{term}", "", namespace=_TERMS)  # noqa: SLF001 - no other way
        found: list[bytes] = keys._internal_kv_list(own, namespace=_TERMS)  # noqa: SLF001 - as above
        return max(int(key.rpartition(b"/")[2]) for key in found)

    # Nodes

    def nodes(self) -> list[NodeMap]:
        """Return the nodes that are alive."""
        state = importlib.import_module("ray._private.state").state
        draining = state.get_draining_nodes()
        return [
            {
                "id": node["NodeID"],
                "labels": dict(node.get("Labels") or {}),
                "resources": dict(node["Resources"]),
                "draining": node["NodeID"] in draining,
            }
            for node in self._ray.nodes()
            if node["Alive"]
        ]

    def _pinned(self, node: str) -> Any:  # noqa: ANN401 - Ray has no types
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        return strategies.NodeAffinitySchedulingStrategy(node, soft=False)

    # Tasks

    def submit(self, run: dict[str, Any], gate: Any, group: Any) -> Any:  # noqa: ANN401 - Ray has no types
        """Submit the task of a run; return its items, to be read by ``async for``."""
        work = run["work"]
        given: dict[str, Any] = work.get("options") or {}
        options: dict[str, Any] = {
            **{name: value for name, value in given.items() if name not in _OURS},
            **self._amounts(run),
            "max_retries": 0,
            "name": f"{_DETACHED}{run['name']}",
            "scheduling_strategy": self._place(run, group),
        }
        if work.get("runtime_env"):
            options["runtime_env"] = work["runtime_env"]
        calls = _max_calls(run)
        items = self._task(calls).options(**options).remote(self._keeper, _job(run), gate)
        self._known.add(calls)
        return items

    def submits_slowly(self, run: dict[str, Any]) -> bool:
        """Return whether submitting a task waits for Ray's head."""
        return bool(run["work"].get("runtime_env")) or _max_calls(run) not in self._known

    def _task(self, max_calls: int) -> Any:  # noqa: ANN401 - Ray has no types
        if max_calls not in self._tasks:
            remote = self._ray.remote(num_returns="streaming", max_calls=max_calls, max_retries=0)
            self._tasks[max_calls] = remote(self._runner.work)
        return self._tasks[max_calls]

    def _amounts(self, run: dict[str, Any]) -> dict[str, Any]:
        amounts: dict[str, Any] = {"num_cpus": run["cpus"], "num_gpus": run["gpus"] or None}
        if run["memory"]:
            amounts["memory"] = run["memory"]
        resources = {name: amount for name, amount in run["resources"].items() if amount}
        if resources:
            amounts["resources"] = resources
        return amounts

    def _place(self, run: dict[str, Any], group: Any) -> Any:  # noqa: ANN401 - Ray has no types
        if group is None:
            return self._pinned(run["node"])
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        return strategies.PlacementGroupSchedulingStrategy(
            group[0], placement_group_bundle_index=group[1]
        )

    def cancel(self, items: Any, *, force: bool) -> None:  # noqa: ANN401 - Ray has no types
        """Cancel a task."""
        self._ray.cancel(items, force=force)

    def small(self, node: str, name: str, *arguments: object) -> Any:  # noqa: ANN401 - Ray has no types
        """Call a function of the runner on a node, without resources."""
        if name not in self._small:
            self._small[name] = self._ray.remote(num_cpus=0, max_retries=0)(
                getattr(self._runner, name)
            )
        task = self._small[name].options(scheduling_strategy=self._pinned(node))
        return task.remote(*arguments)

    def warm(self, node: str, within_s: float) -> Any:  # noqa: ANN401 - Ray has no types
        """Hold a worker on a node."""
        task = self._ray.remote(num_cpus=0, max_retries=0, num_returns="streaming")
        pinned = self._pinned(node)
        return task(self._runner.warm).options(scheduling_strategy=pinned).remote(within_s)

    # Gangs

    def gates(self) -> Any:  # noqa: ANN401 - Ray has no types
        """Start the actor at which the members of gangs wait."""
        node = self._ray.get_runtime_context().get_node_id()
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        strategy = strategies.NodeAffinitySchedulingStrategy(node, soft=True)
        actor = self._ray.remote(num_cpus=0, max_concurrency=100_000)(self._runner.Gates)
        return actor.options(scheduling_strategy=strategy).remote()

    def reserve(self, runs: Sequence[dict[str, Any]], name: str | None) -> Any:  # noqa: ANN401 - Ray has no types
        """Begin to reserve room for several runs, each on its node."""
        groups = importlib.import_module("ray.util.placement_group")
        return groups.placement_group(
            [_bundle(run) for run in runs],
            name=name or "",
            lifetime=None if name is None else "detached",
            bundle_label_selector=[{"ray.io/node-id": run["node"]} for run in runs],
        )

    def is_reserved(self, group: Any, within_s: float) -> bool:  # noqa: ANN401 - Ray has no types
        """Return whether Ray reserves the room within some seconds."""
        return bool(group.wait(within_s))

    def remove_group(self, group: Any) -> None:  # noqa: ANN401 - Ray has no types
        """Release the reservation."""
        importlib.import_module("ray.util.placement_group").remove_placement_group(group)

    def names_of_groups(self) -> list[str]:
        """Return the names of the reservations for detached runs."""
        groups = importlib.import_module("ray.util.placement_group").placement_group_table()
        return [
            group["name"]
            for group in groups.values()
            if group["name"].startswith(_DETACHED) and group["state"] != "REMOVED"
        ]

    def remove_group_named(self, name: str) -> None:
        """Release the reservation with a name."""
        groups = importlib.import_module("ray.util.placement_group")
        with suppress(ValueError):  # another member has done it
            groups.remove_placement_group(groups.get_placement_group(name))

    # Detached runs

    def start_detached(self, run: dict[str, Any], group: Any) -> Any:  # noqa: ANN401 - Ray has no types
        """Start the actor of a detached run; it does not begin yet."""
        description = {name: run[name] for name in _ABOUT} | {"kind": run["work"]["kind"]}
        io = {"concurrency_groups": {"io": 8}}
        actor = self._ray.remote(max_restarts=0, max_task_retries=0, **io)(self._runner.Detached)
        options: dict[str, Any] = {
            **self._amounts(run),
            "name": f"{_DETACHED}{run['name']}",
            "lifetime": "detached",
            "scheduling_strategy": self._place(run, group),
        }
        if run["work"].get("runtime_env"):
            options["runtime_env"] = run["work"]["runtime_env"]
        return _Actor(actor.options(**options).remote(self._keeper, _job(run), description))

    def detached(self, name: str) -> Any:  # noqa: ANN401 - Ray has no types
        """Return the actor of a detached run, if it lives or is on its way."""
        try:
            return _Actor(self._ray.get_actor(f"{_DETACHED}{name}"))
        except ValueError:
            return None

    def names_of_detached(self) -> list[str]:
        """Return the names of all detached runs."""
        names = self._ray.util.list_named_actors()
        return [name.removeprefix(_DETACHED) for name in names if name.startswith(_DETACHED)]

    def is_pending(self, actor: Any) -> bool:  # noqa: ANN401 - Ray has no types
        """Return whether an actor has not been started yet."""
        return self._known_of(actor).get("State") in ("DEPENDENCIES_UNREADY", "PENDING_CREATION")

    def node_of(self, actor: Any) -> str:  # noqa: ANN401 - Ray has no types
        """Return the id of the node of an actor."""
        node: str = self._known_of(actor)["Address"]["NodeID"]
        return node

    def _known_of(self, actor: Any) -> dict[str, Any]:  # noqa: ANN401 - Ray has no types
        """Return what Ray's head knows of an actor."""
        state = importlib.import_module("ray._private.state")
        known: dict[str, Any] = state.actors(actor.handle._actor_id.hex())  # noqa: SLF001 - no other way
        return known

    def kill(self, actor: Any) -> None:  # noqa: ANN401 - Ray has no types
        """Kill an actor."""
        self._ray.kill(actor.handle)

    # Errors

    def is_away(self, error: BaseException) -> bool:
        """Return whether an actor does not answer, but may live."""
        return isinstance(error, self._ray.exceptions.ActorUnavailableError)

    def classify(self, error: BaseException) -> tuple[str, str, str]:
        """Classify the error of a run."""
        errors = self._ray.exceptions
        text = str(error)
        first = text.strip().partition("\n")[0].partition(". ")[0]
        line = f"{type(error).__name__}: {first}"
        if isinstance(error, errors.RayTaskError):
            return "work", line, text
        of_node = isinstance(error, errors.RayActorError) and "its node has died" in text
        if isinstance(error, errors.NodeDiedError) or of_node:
            return "node_lost", line, text
        not_started = (
            errors.TaskUnschedulableError,
            errors.ActorUnschedulableError,
            errors.RuntimeEnvSetupError,
            errors.TaskPlacementGroupRemoved,
            errors.ActorPlacementGroupRemoved,
        )
        if isinstance(error, errors.RayError) and not isinstance(error, not_started):
            return "lost", line, text
        return "not_started", line, text


def _job(run: dict[str, Any]) -> dict[str, Any]:
    """Return the job of a run for the runner."""
    gate = None if run["gate"] is None else run["gate"]["name"]
    return {**run["work"], "name": run["name"], "grace_s": run["grace_s"], "gate": gate}


def _max_calls(run: dict[str, Any]) -> int:
    """Return how many runs a worker may do; 0 for no limit."""
    # As Ray does: a worker that has used a GPU is not used again, so that its memory is free.
    options: dict[str, Any] = run["work"].get("options") or {}
    calls: int = options.get("max_calls", 1 if run["gpus"] else 0)
    return calls


def _bundle(run: dict[str, Any]) -> dict[str, float]:
    amounts = {"CPU": run["cpus"], "GPU": run["gpus"], "memory": run["memory"], **run["resources"]}
    return {name: amount for name, amount in amounts.items() if amount}


def _stand_alone() -> None:
    """Find the files beside this one, and import no more of Muster than these.

    The Python of the agent need not have Muster, nor its dependencies.
    """
    own_folder = str(_HERE)
    sys.path[:] = [path for path in sys.path if path and str(Path(path).resolve()) != own_folder]
    for name, folder in (("muster", _HERE.parent), ("muster.ray", _HERE)):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def main() -> None:
    """Be an agent."""
    _stand_alone()
    # Ctrl-C in a terminal reaches this process too; the program decides what it means. A handler,
    # since processes that are started here would inherit that the signal is ignored.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        serving = importlib.import_module("muster.ray._agent_server")
    except ModuleNotFoundError as error:  # without msgpack it cannot even say so by a message
        sys.exit(f"{sys.executable} has no {error.name}, so it has no ray, which comes with it")
    asyncio.run(serving.serve(Ray()))


if __name__ == "__main__":
    main()
