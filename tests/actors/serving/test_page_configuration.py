"""The editor of the configuration without a browser: roles, and forms that are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from muster.figures.text import MINUS
from muster.service.access import Role
from tests.actors.serving.served import Served
from tests.actors.serving.test_access import SECRETS, line_of
from tests.actors.serving.test_page import log_in, proof


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{line_of(role, secret)}\n" for role, secret in SECRETS.items()))
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        yield served


def written(client: httpx.Client, **changes: str) -> Mapping[str, str]:
    """Return the fields of the form as the page has them, with some others."""
    page = client.get("/config").text
    seen = re.search(r'name="seen" id="config-seen" value="([0-9a-f]+)"', page)
    assert seen is not None
    text = "partitions: [{name: default, queues: [{name: root, queues: [{name: other}]}]}]"
    return {"seen": seen[1], "text": text, "since": "7d", **changes}


# PAGE-50
def test_a_reader_may_check_and_not_apply(served: Served) -> None:
    log_in(served.client, Role.READER)
    client, headers = served.client, proof(served.client)
    form = written(client)

    assert "needs the role admin" in client.get("/config").text
    assert "changes this" in client.post("/config/check", data=form, headers=headers).text
    for path in ("/config/compare", "/config/apply"):
        assert client.post(path, data=form, headers=headers).status_code == 403


# PAGE-51, PAGE-52, PAGE-53
def test_what_is_wrong_in_a_form(served: Served) -> None:
    log_in(served.client, Role.ADMIN)
    client, headers = served.client, proof(served.client)

    def send(path: str, **changes: str) -> httpx.Response:
        return client.post(f"/config/{path}", data=written(client, **changes), headers=headers)

    assert send("compare", since="1y").status_code == 400
    assert "must be one of" in send("compare", since="1y").text
    assert send("compare", text="partitions: 1").status_code == 422
    assert send("apply", text="partitions: 1").status_code == 422
    assert send("apply", seen="another").status_code == 412
    assert "Another configuration" in send("check", seen="another").text
    assert client.post("/config/check", data={"seen": "x"}, headers=headers).status_code == 400
    bad = client.post("/config/check", content=b"text=%ff&seen=%zz&&", headers=headers)
    assert bad.status_code in {400, 422}


# PAGE-52
def test_without_a_store_only_the_present_is_looked_at(served: Served) -> None:
    log_in(served.client, Role.ADMIN)
    form, headers = written(served.client), proof(served.client)
    response = served.client.post("/config/compare", data=form, headers=headers)

    assert "Nothing is kept" in response.text
    assert "root.other" not in served.client.get("/queues").text


# PAGE-52
def test_a_comparison_says_which_span_it_is_of(tmp_path: Path) -> None:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        events = [
            {"op": "add_node", "node": "n", "capacity": {"vcore": 8}},
            {"op": "add_app", "app": "a", "queue": "root.dev"},
            {"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 1}, "count": 4},
        ]
        served.client.post("/api/v1/events", json=events).raise_for_status()
        tight = "{name: dev, resources: {max: {vcore: 2}}}"
        text = f"partitions: [{{name: default, queues: [{{name: root, queues: [{tight}]}}]}}]"
        form = written(served.client, text=text)
        found = served.client.post("/config/compare", data=form, headers=proof(served.client))

    # The four asks keep their nodes, but two of them would not have got one.
    assert "Nothing would be decided" not in found.text
    assert "are the same; below is what the rest leads to." in found.text
    assert "Less history is kept than the last week:</strong> it begins at 20" in found.text
    assert re.search(r"the span from 20[^<]* until 20[^<]* UTC", found.text)
    cells = re.search(r"vcore used, on average(.*?)</tr>", found.text, re.DOTALL)
    assert cells is not None
    before, after, change = re.findall(r"<td[^>]*>(.*?)</td>", cells[1])
    # It is that of the overview, as nothing has changed since; a difference is of points.
    assert (before, after) == ("50.0 %", "25.0 %")
    assert change == f"{MINUS}25.0 points"


# PAGE-54
@pytest.mark.parametrize(
    ("wanted", "heading", "begin"),
    [
        ("root.prod", "The lines of root.prod are", "- name: prod"),
        (
            "root.dev.new",
            "root.dev.new is not in the configuration. It is below root.dev",
            "- name: dev",
        ),
        ("nowhere", None, None),
    ],
)
def test_a_queue_leads_to_its_lines(
    served: Served, wanted: str, heading: str | None, begin: str | None
) -> None:
    log_in(served.client, Role.ADMIN)
    page = served.client.get("/config", params={"queue": wanted}).text
    text = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    lines = re.search(r'data-first="(\d+)" data-last="(\d+)"', page)
    assert text is not None

    if heading is None or begin is None:
        assert lines is None
    else:
        assert lines is not None
        assert heading in re.sub(r"<[^>]*>", "", page)
        first, last = int(lines[1]), int(lines[2])
        shown = text[1].splitlines()[first - 1 : last]
        assert shown[0].strip() == begin
        assert sum("name:" in one for one in shown) == 1
