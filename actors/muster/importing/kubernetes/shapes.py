"""The fields of dumped Pods and Nodes that matter."""

from __future__ import annotations

from typing import Final

from muster.feeds._fields.collections import WORDS, listed
from muster.feeds._fields.numbers import BOOLEAN, INT32, integer
from muster.feeds._fields.texts import NAME, OWNED_NAME, TEXT, WORD
from muster.feeds._objects.cluster import NAMESPACE, unless_empty
from muster.feeds._objects.gang_marks import MEMBER_MARKS
from muster.feeds._objects.shapes import Shape, part
from muster.importing.kubernetes.kinds import INSTANT, PRESENCE, QUANTITIES, list_of
from muster_core.values.quantities import MAX_INT32

_OWNER: Final = Shape({
    "kind": part("kind", TEXT),
    "name": part("name", TEXT),
    "controller": part("controller", BOOLEAN),
})  # fmt: skip

_CONTAINER: Final = Shape({
    "resources": Shape({
        "requests": part("requests", QUANTITIES),
        "limits": part("limits", QUANTITIES),
    }),
    "restartPolicy": part("restart", unless_empty(TEXT)),
    "ports": part("ports", list_of(Shape({"hostPort": part("host_port", PRESENCE)}))),
})  # fmt: skip

_TOLERATION: Final = Shape({
    "key": part("key", WORD),
    "operator": part("operator", WORD),
    "value": part("value", WORD),
    "effect": part("effect", WORD),
})  # fmt: skip

_EXPRESSION: Final = Shape({
    "key": part("key", NAME, required=True),
    "operator": part("operator", TEXT, required=True),
    "values": part("values", listed(WORD, "list of texts")),
})  # fmt: skip

_TERM: Final = Shape({
    "matchExpressions": part("expressions", list_of(_EXPRESSION)),
    "matchFields": part("fields", list_of(_EXPRESSION)),
})  # fmt: skip

_AFFINITY: Final = Shape({
    "nodeAffinity": Shape({
        "requiredDuringSchedulingIgnoredDuringExecution": Shape({
            "nodeSelectorTerms": part("terms", list_of(_TERM)),
        }),
        "preferredDuringSchedulingIgnoredDuringExecution": part("preferred", PRESENCE),
    }),
    "podAffinity": part("pod_affinity", PRESENCE),
    "podAntiAffinity": part("pod_anti_affinity", PRESENCE),
})  # fmt: skip

_STATE: Final = {
    "running": Shape({"startedAt": part("running_since", INSTANT)}),
    "terminated": Shape({
        "startedAt": part("started", INSTANT),
        "finishedAt": part("finished", INSTANT),
    }),
}  # fmt: skip

_STATUSES: Final = list_of(Shape({"state": Shape(_STATE)}))

_CONDITION: Final = Shape({
    "type": part("type", TEXT),
    "status": part("status", WORD),
    "lastTransitionTime": part("since", INSTANT),
})  # fmt: skip

_SECONDS: Final = integer(1, MAX_INT32, f"1 … {MAX_INT32}")

# KUBERNETES-4
POD: Final = Shape({
    "metadata": Shape({
        "name": part("name", OWNED_NAME, required=True),
        "namespace": part("namespace", NAMESPACE),
        "uid": part("uid", TEXT),
        "creationTimestamp": part("created", INSTANT, required=True),
        "deletionTimestamp": part("deleted", INSTANT),
        "labels": part("labels", MEMBER_MARKS),
        "annotations": part("annotations", MEMBER_MARKS),
        "ownerReferences": part("owners", list_of(_OWNER)),
    }),
    "spec": Shape({
        "containers": part("containers", list_of(_CONTAINER)),
        "initContainers": part("init_containers", list_of(_CONTAINER)),
        "overhead": part("overhead", QUANTITIES),
        "resources": Shape({
            "requests": part("pod_requests", QUANTITIES),
            "limits": part("pod_limits", QUANTITIES),
        }),
        "nodeName": part("node", unless_empty(NAME)),
        "nodeSelector": part("selector", WORDS),
        "affinity": _AFFINITY,
        "tolerations": part("tolerations", list_of(_TOLERATION)),
        "priority": part("priority", INT32),
        "priorityClassName": part("priority_class", unless_empty(NAME)),
        "schedulingGates": part("gates", PRESENCE),
        "topologySpreadConstraints": part("spread", PRESENCE),
        "activeDeadlineSeconds": part("deadline", _SECONDS),
        "runtimeClassName": part("runtime_class", PRESENCE),
        "volumes": part(
            "volumes", list_of(Shape({"persistentVolumeClaim": part("claim", PRESENCE)}))
        ),
    }),
    "status": Shape({
        "phase": part("phase", unless_empty(TEXT)),
        "startTime": part("accepted", INSTANT),
        "conditions": part("conditions", list_of(_CONDITION)),
        "containerStatuses": part("statuses", _STATUSES),
        "initContainerStatuses": part("init_statuses", _STATUSES),
    }),
})  # fmt: skip
"""A Pod."""

_TAINT: Final = Shape({
    "key": part("key", NAME, required=True),
    "value": part("value", WORD),
    "effect": part("effect", TEXT, required=True),
})  # fmt: skip

NODE: Final = Shape({
    "metadata": Shape({
        "name": part("name", NAME, required=True),
        "creationTimestamp": part("created", INSTANT),
        "labels": part("labels", WORDS),
    }),
    "spec": Shape({
        "unschedulable": part("closed", BOOLEAN),
        "taints": part("taints", list_of(_TAINT)),
    }),
    "status": Shape({
        "allocatable": part("allocatable", QUANTITIES),
        "capacity": part("capacity", QUANTITIES),
    }),
})  # fmt: skip
"""A Node."""

ELASTIC_QUOTA: Final = Shape({
    "metadata": Shape({"name": part("name", NAME, required=True), "labels": part("labels", WORDS)}),
    "spec": Shape({"min": part("min", QUANTITIES), "max": part("max", QUANTITIES)}),
})  # fmt: skip
"""An ElasticQuota of Koordinator."""

VOLCANO_GROUP: Final = Shape({"spec": Shape({"queue": part("queue", unless_empty(NAME))})})
"""What a PodGroup of Volcano has beside that of others."""
