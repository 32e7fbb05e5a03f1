"""The fields of YuniKorn's objects and their types, as the contract has them, and the state that
its examples show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard, cast

from muster.config_files import parse_configuration
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure, RemoveAsk
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from tests.actors.state_directories import Keeper

Check = Callable[[Any], bool]
Fields = Mapping[str, str]

_LEAST_NS: Final = 10**18
_LEAST_MS: Final = 10**12


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _is_map(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _int(value: object) -> bool:
    return type(value) is int


def _text(value: object) -> bool:
    return type(value) is str


def _texts(value: object) -> bool:
    return _is_list(value) and all(map(_text, value))


def _words(value: object) -> bool:
    return _is_map(value) and all(map(_text, value.values()))


def _amounts(value: object) -> bool:
    return _is_map(value) and all(map(_int, value.values()))


def _percentages(value: object) -> bool:
    return _is_map(value) and all(_int(one) and 0 <= one < 2**31 for one in value.values())


def _shown(value: object) -> bool:
    return _is_map(value) and {"vcore", "memory"} <= value.keys() and _amounts(value)


def _ns(value: object) -> bool:
    return type(value) is int and value > _LEAST_NS


def _ms(value: object) -> bool:
    return type(value) is int and _LEAST_MS < value < _LEAST_NS


def _int32(value: object) -> bool:
    return type(value) is int and -(2**31) <= value < 2**31


def _number_as_text(value: object) -> bool:
    return type(value) is str and str(int(value)) == value


def _floats(value: object) -> bool:
    return _is_map(value) and all(type(one) is float for one in value.values())


CHECKS: Final[Mapping[str, Check]] = {
    "str": _text,
    "int": _int,
    "bool": lambda value: type(value) is bool,
    "ns": _ns,
    "ms": _ms,
    "delay": _int,
    "res": _amounts,
    "shown": _shown,
    "pct": _percentages,
    "int32": _int32,
    "text": _number_as_text,
    "words": _words,
    "texts": _texts,
    "floats": _floats,
    "map": _is_map,
    "empty map": lambda value: value == {},
    "duration": lambda value: type(value) is str and value[-1] == "s" and value[0].isdecimal(),
}

OBJECTS: Final[Mapping[str, Fields]] = {
    "cluster": {
        "clusterName": "str !",
        "partition": "str !",
        "startTime": "ns",
        "rmBuildInformation": "[words]",
    },
    "partition": {
        "name": "str !",
        "clusterId": "str !",
        "state": "str",
        "lastStateTransitionTime": "ns",
        "capacity": "{capacity} !",
        "nodeSortingPolicy": "{order} !",
        "preemptionEnabled": "bool !",
        "quotaPreemptionEnabled": "bool !",
        "totalNodes": "int !",
        "totalContainers": "int !",
        "applications": "res !",
    },
    "capacity": {"capacity": "res !", "usedCapacity": "res !", "utilization": "pct !"},
    "order": {"type": "str !", "resourceWeights": "floats !"},
    "queue": {
        "queuename": "str !",
        "status": "str !",
        "partition": "str !",
        "parent": "str",
        "isLeaf": "bool !",
        "isManaged": "bool !",
        "children": "[{queue}]",
        "childNames": "texts !",
        "properties": "words !",
        "template": "{template}",
        "maxResource": "res",
        "guaranteedResource": "res",
        "allocatedResource": "shown !",
        "pendingResource": "shown !",
        "headroom": "res",
        "absUsedCapacity": "pct",
        "maxRunningApps": "int",
        "runningApps": "int",
        "allocatingAcceptedApps": "texts",
        "currentPriority": "int32 !",
        "sortingPolicy": "str",
        "prioritySorting": "bool !",
        "isPriorityFence": "bool !",
        "priorityOffset": "int32",
        "preemptionEnabled": "bool !",
        "isPreemptionFence": "bool !",
        "preemptionDelay": "duration !",
        "quotaPreemptionDelay": "duration !",
    },
    "template": {
        "maxApplications": "int",
        "maxResource": "res",
        "guaranteedResource": "res",
        "properties": "words",
    },
    "application": {
        "applicationID": "str !",
        "partition": "str !",
        "queueName": "str !",
        "applicationState": "str !",
        "submissionTime": "ns !",
        "stateLog": "[{state}] !",
        "finishedTime": "ns",
        "startTime": "ms",
        "usedResource": "shown !",
        "pendingResource": "shown !",
        "maxUsedResource": "res !",
        "user": "str",
        "groups": "texts",
        "requests": "[{ask}]",
        "allocations": "[{allocation}]",
        "maxRequestPriority": "int32",
        "resourceHistory": "empty map !",
    },
    "state": {"time": "ns !", "applicationState": "str !"},
    "ask": {
        "allocationKey": "str !",
        "allocationTags": "words",
        "requestTime": "ns !",
        "resource": "res !",
        "priority": "text !",
        "requiredNodeId": "str",
        "applicationId": "str !",
        "taskGroupName": "str",
        "schedulingAttempted": "bool",
        "allocationLog": "[{log}]",
    },
    "log": {"message": "str !", "lastOccurrence": "ns !", "count": "int !"},
    "allocation": {
        "allocationKey": "str !",
        "allocationTags": "words !",
        "requestTime": "ns !",
        "allocationTime": "ns",
        "allocationDelay": "delay",
        "resource": "res !",
        "priority": "text !",
        "nodeId": "str !",
        "applicationId": "str !",
        "taskGroupName": "str",
        "placeholder": "bool",
    },
    "node": {
        "nodeID": "str !",
        "hostName": "str !",
        "rackName": "str",
        "attributes": "words !",
        "capacity": "res !",
        "allocated": "res !",
        "occupied": "res",
        "available": "res !",
        "utilized": "pct !",
        "allocations": "[{allocation}]",
        "schedulable": "bool !",
        "isReserved": "bool !",
        "partition": "str !",
    },
    "utilization": {
        "clusterId": "str !",
        "partition": "str !",
        "utilizations": "[{of type}] !",
    },
    "of type": {"type": "str !", "utilization": "[{bucket}] !"},
    "bucket": {"bucketName": "str !", "numOfNodes": "int", "nodeNames": "texts"},
    "apps": {"timestamp": "ns !", "totalApplications": "text !"},
    "containers": {"timestamp": "ns !", "totalContainers": "text !"},
    "health": {"Healthy": "bool !", "HealthChecks": "[{check}] !"},
    "check": {
        "Name": "str !",
        "Succeeded": "bool !",
        "Description": "str !",
        "DiagnosisMessage": "str !",
    },
    "rule": {
        "name": "str !",
        "parameters": "words !",
        "parentRule": "{rule}",
        "filter": "{filter}",
    },
    "filter": {
        "type": "str !",
        "userList": "texts",
        "groupList": "texts",
        "userExp": "str",
        "groupExp": "str",
    },
    "user": {"userName": "str !", "groups": "words !", "queues": "{usage} !"},
    "group": {"groupName": "str !", "applications": "texts !", "queues": "{usage} !"},
    "usage": {
        "queuePath": "str !",
        "resourceUsage": "res !",
        "runningApplications": "texts",
        "maxResources": "res",
        "maxApplications": "int",
        "children": "[{usage}]",
    },
    "batch": {
        "InstanceUUID": "str !",
        "LowestID": "int !",
        "HighestID": "int !",
        "EventRecords": "[{event}] !",
    },
    "event": {
        "type": "int !",
        "objectID": "str !",
        "referenceID": "str",
        "message": "str",
        "timestampNano": "ns !",
        "eventChangeType": "int !",
        "eventChangeDetail": "int !",
        "resource": "map !",
    },
    "dump": {
        "timestamp": "ns !",
        "partitions": "[{partition}] !",
        "applications": "[{application}] !",
        "appHistory": "[{apps}] !",
        "nodes": "[{nodes}] !",
        "clusterInfo": "[{cluster}] !",
        "containerHistory": "[{containers}] !",
        "queues": "[{queue}] !",
        "rmDiagnostics": "words !",
        "logLevel": "str !",
        "config": "map !",
        "placementRules": "[{rules}] !",
        "eventStreams": "[words] !",
    },
    "nodes": {"partitionName": "str !", "nodesInfo": "[{node}] !"},
    "rules": {"partition": "str !", "rules": "[{rule}] !"},
}


def wrong_in(kind: str, value: object, place: str = "") -> list[str]:
    """Return the problems of a value.

    Args:
        kind: Its type: a word of :data:`CHECKS`, ``{object}``, or ``[…]`` for a list of them.
        value: The value.
        place: Its place in the answer.
    """
    if kind.startswith("["):
        if not _is_list(value):
            return [f"{place}: {value!r} is no list"]
        inner = kind[1:-1]
        return [
            problem
            for number, one in enumerate(value)
            for problem in wrong_in(inner, one, f"{place}[{number}]")
        ]
    if kind.startswith("{"):
        return _wrong_in_object(kind[1:-1], value, place)
    return [] if CHECKS[kind](value) else [f"{place}: {value!r} is not of the type {kind}"]


def _wrong_in_object(name: str, value: object, place: str) -> list[str]:
    fields = OBJECTS[name]
    if not _is_map(value):
        return [f"{place}: {value!r} is no map"]
    problems = [f"{place}.{field}: is no field of {name}" for field in value if field not in fields]
    for field, kind in fields.items():
        if field in value:
            problems += wrong_in(kind.removesuffix(" !"), value[field], f"{place}.{field}")
        elif kind.endswith("!"):
            problems.append(f"{place}.{field}: is missing")
    return problems


GI: Final = 2**30

ORIGIN_US: Final = (int(time.time()) - 21_600) * 1_000_000
"""Six hours ago, to the second: a service that starts now goes on from there."""

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {gang.wait.time: 1000h}
        queues:
          - name: prod
            queues:
              - name: etl
                resources: {max: {vcore: 8}}
                properties: {application.sort.policy: fair, priority.offset: "100"}
          - name: train
          - name: lab
            parent: true
            maxapplications: 7
            resources: {guaranteed: {vcore: 1}}
            childtemplate:
              maxapplications: 3
              properties: {preemption.policy: fence}
              resources: {max: {vcore: 2}, guaranteed: {memory: 1Gi}}
"""


def ns(seconds: float) -> int:
    """Return an instant in nanoseconds, by its seconds since the origin."""
    return (ORIGIN_US + round(seconds * 1e6)) * 1_000


def keep_scene(directory: Path) -> Path:
    """Keep the scene in a state directory."""
    keeper = Keeper(directory, origin_us=ORIGIN_US)
    part = Resources({"vcore": 4000, "memory": 8 * GI})
    node = Resources({"vcore": 8000, "memory": 32 * GI})
    keeper.run(0, [Configure(parse_configuration(CONFIG))])
    keeper.run(
        10_000_000,
        [AddApp("old", "root.train"), AddAsk("old", "x", part), RemoveAsk("old", "x")],
    )
    keeper.run(60_000_000, [AddApp("nightly-1", "root.prod.etl", "olga", ("data",))])
    big = Resources({"vcore": 12000, "memory": 8 * GI})
    keeper.run(
        60_500_000,
        [
            AddAsk("nightly-1", "load-0", part, priority=10),
            AddAsk("nightly-1", "load-1", big, priority=10),
        ],
    )
    keeper.run(
        61_000_000,
        [AddNode("node-a", node), AddNode("node-b", node, {"zone": "east"})],
    )
    keeper.run(
        100_000_000,
        [
            AddGang("ml/ring", GangFields(min_member=2, mode=GangMode.NON_STRICT)),
            AddApp("train-3", "root.train"),
            AddAsk("train-3", "w-0", part, gang="ml/ring"),
            AddAsk("train-3", "w-1", Resources({"vcore": 64000}), gang="ml/ring"),
        ],
    )
    keeper.pass_until(400_000_000)
    return keeper.close()


def lacks(expected: object, actual: object, place: str = "") -> list[str]:
    """Return the expected parts that an answer lacks; it may have more fields."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return [f"{place}: {actual!r} is no map"]
        wanted, found = cast("dict[str, object]", expected), cast("dict[str, object]", actual)
        problems = [f"{place}.{name}: is missing" for name in wanted if name not in found]
        for name in [name for name in wanted if name in found]:
            problems += lacks(wanted[name], found[name], f"{place}.{name}")
        return problems
    if isinstance(expected, list):
        items = cast("list[object]", expected)
        others = cast("list[object]", actual) if isinstance(actual, list) else []
        if len(items) != len(others):
            return [f"{place}: {actual!r} has not {len(items)} items"]
        wrong: list[str] = []
        for number, (one, two) in enumerate(zip(items, others, strict=True)):
            wrong += lacks(one, two, f"{place}[{number}]")
        return wrong
    same = type(expected) is type(actual) and expected == actual
    return [] if same else [f"{place}: {actual!r} is not {expected!r}"]
