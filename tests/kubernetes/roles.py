"""Gives the roles of ``deploy/kubernetes`` to users of the tests, which are no service accounts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.kubernetes.cluster import ClusterError, ControlPlane, wait_until

DEPLOY: Final = Path(__file__).parents[2] / "deploy" / "kubernetes"

NAMESPACE: Final = "muster"
"""Where Muster's own objects are."""

_PLURALS: Final = {
    "Namespace": "api/v1/namespaces",
    "ServiceAccount": "api/v1/namespaces/muster/serviceaccounts",
    "ClusterRole": "apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "apis/rbac.authorization.k8s.io/v1/namespaces/muster/roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/namespaces/muster/rolebindings",
}


def documents(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of ``deploy/kubernetes``."""
    yield from yaml.safe_load_all((DEPLOY / name).read_text())


def give_roles(plane: ControlPlane, user: str = "muster") -> None:
    """Apply the namespace and the roles, bind a user to them, and wait until that is in force.

    That user may then do what Muster may in a cluster, and no more. It may be called any number
    of times.
    """
    for one in (*documents("namespace.yaml"), *documents("rbac.yaml")):
        _apply(plane, one)
        if "subjects" in one:
            name = f"{one['metadata']['name']}-user-{user}"
            subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
            metadata = {**one["metadata"], "name": name}
            _apply(plane, {**one, "metadata": metadata, "subjects": subjects})
    wait_until(
        lambda: (
            may(plane, "list", "pods", user=user)
            and may(plane, "create", "leases.coordination.k8s.io", NAMESPACE, user=user)
        ),
        f"{user} has its roles",
    )


def may(
    plane: ControlPlane, verb: str, resource: str, namespace: str = "", user: str = "muster"
) -> bool:
    """Return whether the server lets a user do something.

    Args:
        plane: The control plane.
        verb: The verb.
        resource: The resource, such as ``pods/binding`` or ``leases.coordination.k8s.io``.
        namespace: Where; empty for everywhere.
        user: The user.
    """
    named, _, part = resource.partition("/")
    plural, _, group = named.partition(".")
    wanted = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": part,
        "namespace": namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(plane.post(path, review, user)["status"]["allowed"])


def _apply(plane: ControlPlane, one: dict[str, Any]) -> None:
    path = f"/{_PLURALS[one['kind']]}/{one['metadata']['name']}"
    with plane.client() as client:
        response = client.patch(
            path,
            params={"fieldManager": "tests", "force": "true"},
            content=json.dumps(one),
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
    if response.is_error:
        msg = f"{path} has answered {response.status_code}: {response.text}"
        raise ClusterError(msg)
