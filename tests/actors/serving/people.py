"""A server with tokens, and the users who have them."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

from muster.service.access import Principal, Role, mint
from tests.actors.serving.served import Served

PATH: Final = "/api/v1/events"
KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
RIGHTS: Final = ("belongs to", "is in the namespace of", "needs the role admin")
"""Parts of the messages of refusals for lack of rights; other refusals come from the scheduler."""

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: open, submitacl: "*"}
          - {name: team, submitacl: "ann,bob", adminacl: "eve heads"}
          - name: low
            submitacl: "*"
            properties: {priority.limit: "100"}
            queues:
              - {name: plain}
              - {name: lower, adminacl: "eve", properties: {priority.limit: "-5"}}
              - {name: higher, properties: {priority.limit: "2147483647"}}
"""
WHO: Final = {
    "root": Principal("root", Role.ADMIN),
    "ann": Principal("ann-laptop", Role.SUBMITTER, "ann", ("staff", "dev")),
    "bob": Principal("bob", Role.SUBMITTER, "bob"),
    "eve": Principal("eve", Role.SUBMITTER, "eve"),
    "hal": Principal("hal", Role.SUBMITTER, "hal", ("heads",)),
    "zoe": Principal("zoe", Role.SUBMITTER, "zoe"),
    "reader": Principal("reader", Role.READER),
}
Event = dict[str, object]


@final
class People:
    """A server, and the tokens of some people."""

    def __init__(self, served: Served, secrets: Mapping[str, str]) -> None:
        self.served = served
        self.secrets = secrets

    def headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secrets[who]}"} if who else {}

    def send(self, who: str, *events: Event, **parameters: str) -> list[str | None]:
        """Send events as a user; return the error of each, or None."""
        answer = self.served.client.post(
            PATH, json=events, headers=self.headers(who), params=parameters
        )
        assert answer.status_code == 200, answer.text
        found = answer.json()
        return [one["error"] for one in (found["results"] if parameters else found)]

    def form(self, who: str, path: str, *events: Event) -> str:
        """Send events by a form of a page; return the page that answers."""
        answer = self.served.client.post(
            path, data={"events": json.dumps(events)}, headers=self.headers(who)
        )
        assert answer.status_code == 200, answer.text
        return answer.text

    def submit(self, *events: Event, who: str = "root") -> None:
        """Send events, all of which are accepted."""
        assert self.send(who, *events) == [None] * len(events)

    def gang(self, name: str) -> dict[str, object] | None:
        """Return the fields of a gang, or None if there is none."""
        answer = self.served.client.get(f"/api/v1/gangs/{name}", headers=self.headers("reader"))
        if answer.status_code == 404:
            return None
        found: dict[str, object] = answer.json()["item"]
        return found


@contextmanager
def people_of(
    folder: Path, *arguments: str, secrets: Mapping[str, str] | None = None, config: str = CONFIG
) -> Generator[People]:
    """Start a server with a token for each user.

    Args:
        folder: Where its files are.
        arguments: More arguments of ``muster serve``.
        secrets: The tokens of a server that was started in this folder before.
        config: The configuration.
    """
    tokens = folder / "tokens"
    if secrets is None:
        minted = {name: mint(who) for name, who in WHO.items()}
        tokens.write_text("".join(f"{token.line()}\n" for _, token in minted.values()), "utf-8")
        tokens.chmod(0o600)
        secrets = {name: secret for name, (secret, _) in minted.items()}
    with Served(folder, "--tokens", str(tokens), *arguments, config=config) as served:
        yield People(served, secrets)


def app(name: str, queue: str = "root.open", **more: object) -> Event:
    return {"op": "add_app", "app": name, "queue": queue, **more}


def ask(app: str, name: str = "x", **more: object) -> Event:
    return {"op": "add_ask", "app": app, "ask": name, "resources": {"vcore": 1}, **more}


def gang_of(name: str, least: int = 1, **more: object) -> Event:
    return {"op": "add_gang", "gang": name, "min_member": least, **more}


def pod_group(name: str, user: str | None = None, groups: str | None = None) -> Event:
    namespace, _, own = name.rpartition("/")
    marks: Event = {}
    if user is not None:
        marks["yunikorn.apache.org/user.info"] = f'{{"user": "{user}"}}'
    if groups is not None:
        marks[f"{KOORDINATOR}/groups"] = groups
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": own, "namespace": namespace or "default", "annotations": marks},
        "spec": {"minMember": 1},
    }


def applied(*objects: Event, op: str = "apply") -> Event:
    if len(objects) == 1:
        return {"op": op, "manifest": objects[0]}
    return {"op": op, "manifest": {"apiVersion": "v1", "kind": "List", "items": [*objects]}}


def marked(gang: str, **marks: str) -> Event:
    """Return the annotations of a member of a gang."""
    written = {name.replace("_", "-"): value for name, value in marks.items()}
    return {f"{KOORDINATOR}/{name}": value for name, value in {"name": gang, **written}.items()}


def is_of_rights(error: str | None) -> bool:
    return error is not None and any(part in error for part in RIGHTS)
