"""Asks, applications and gangs on the page, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Final

import httpx
import pytest

from muster.service.access import Role
from muster.service.page.renderer import sentence
from muster_core.reasons import Code
from tests.actors.serving.served import Served, ServiceThread, running_commands, until
from tests.actors.serving.test_access import SECRETS, line_of
from tests.actors.serving.test_page import log_in, proof

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: web, resources: {max: {vcore: 8}}}
          - {name: ml}
"""
EVENTS: Final[list[dict[str, object]]] = [
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 16}},
    {"op": "add_app", "app": "shop", "queue": "root.web", "user": "ann"},
    {"op": "add_app", "app": "train", "queue": "root.ml", "user": "sue"},
    {"op": "add_ask", "app": "shop", "ask": "front", "resources": {"vcore": 6}},
    {"op": "add_ask", "app": "shop", "ask": "cart", "count": 60, "resources": {"vcore": 4}},
    {
        "op": "add_gang",
        "gang": "ml/bert",
        "min_member": 3,
        "wait_time": "90s",
        "topology": {"prefer": "rack"},
    },
    {
        "op": "add_ask",
        "app": "train",
        "ask": "worker",
        "count": 3,
        "gang": "ml/bert",
        "resources": {"vcore": 5},
    },
]


def release(ask: str, **more: object) -> dict[str, object]:
    return {"op": "release", "app": "shop", "ask": ask, **more}


def write_config(folder: Path) -> Path:
    path = folder / "queues.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    with ServiceThread(config=write_config(tmp_path_factory.mktemp("asks"))) as running:
        running.post(*EVENTS)
        yield running


def text_of(response: httpx.Response) -> str:
    """Return the text of a page, without its markup, and with single spaces."""
    together = re.sub(r"</?(?:bdi|wbr)>", "", response.text)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", together)).split())


def page_text(client: httpx.Client, path: str, /, **parameters: object) -> str:
    known = {name: f"{value}" for name, value in parameters.items()}
    response = client.get(path, params=known or None)
    assert response.status_code == 200, response.text
    return text_of(response)


def rows(service: ServiceThread, path: str = "/asks", **filters: str) -> list[str]:
    """Return the names in a list, following its links to the next pages."""
    names: list[str] = []
    response = service.client.get(path, params=filters)
    while True:
        assert response.status_code == 200, response.text
        names += re.findall(r'<tr role="row" id="[ag]-([^"]+)"', response.text)
        more = re.search(r'<a href="([^"]+)" rel="next">', response.text)
        if more is None:
            return names
        response = service.client.get(unescape(more[1]))


# PAGE-40
@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"name": "FRON"}, ["shop/front"]),
        ({"name": "train/work"}, ["train/worker-0", "train/worker-1", "train/worker-2"]),
        ({"user": "sue", "name": "-1"}, ["train/worker-1"]),
        ({"queue": "ml", "state": "bound"}, []),
        ({"state": "bound"}, ["shop/front"]),
        ({"gang": "ml/bert", "reason": "GangCycleInvalid", "name": "2"}, ["train/worker-2"]),
        ({"app": "shop", "reason": "QueueMax", "name": "cart-5"}, ["shop/cart-5"]),
    ],
)
def test_asks_are_found(service: ServiceThread, filters: dict[str, str], wanted: list[str]) -> None:
    assert [one for one in rows(service, **filters) if not re.search(r"cart-5\d", one)] == wanted


# PAGE-40
def test_a_list_is_read_page_by_page(service: ServiceThread) -> None:
    first = page_text(service.client, "/asks")

    assert "63 pending 0 parked 0 waiting 1 bound" in first
    assert "Next page" in first
    names = rows(service)
    assert len(names) == len(set(names)) == 64
    assert rows(service, state="pending", name="cart") == [f"shop/cart-{i}" for i in range(60)]


# PAGE-40
@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"state": "lost"}, "state: 'lost'"),
        ({"reason": "Bad"}, "reason: 'Bad'"),
        ({"after": "x"}, "after: is no cursor of this list"),
    ],
)
def test_a_wrong_filter_is_reported(
    service: ServiceThread, parameters: dict[str, str], problem: str
) -> None:
    response = service.client.get("/asks", params=parameters)

    assert response.status_code == 400
    assert problem in text_of(response)


# PAGE-40
def test_every_reason_has_words(service: ServiceThread) -> None:
    options = service.client.get("/asks").text
    for code in Code:
        assert f'<option value="{code.value}">{code.summary} ({code.value})</option>' in options


# PAGE-41, PAGE-42
def test_an_ask_says_why_it_is_not_running(service: ServiceThread) -> None:
    linked = '<a href="/asks/shop/cart-7">'
    assert linked in service.client.get("/asks", params={"name": "cart-7"}).text
    text = page_text(service.client, "/asks/shop/cart-7")
    for part in ("Queue root.web", "User ann", "Resources 4 cores", "Priority 0", "Added 2"):
        assert part in text
    assert "left root.web 2 cores" in text


# PAGE-42
@pytest.mark.parametrize("name", ["shop/cart-7", "train/worker-1"])
def test_all_reasons_are_shown(service: ServiceThread, name: str) -> None:
    text = page_text(service.client, f"/asks/{name}")

    why = service.get(f"/api/v1/asks/{name}/why")["item"]
    for reason in why["reasons"]:
        assert f"{sentence(reason['message'])} {reason['code']}" in text
        assert f"rules {', '.join(reason['rules'])}" in text
    assert f"The next round tries {why['first']} first." in text
    assert why["levels"] != [] or name == "shop/cart-7"
    for level in why["levels"]:
        assert " ".join((level["at"], level["own"], level["other"])) in text
        for key in level["keys"]:
            mark = " decides" if key["decides"] else ""
            assert " ".join(f"{key['name']} {key['own']} {key['other']}{mark}".split()) in text


# PAGE-43
def test_what_would_help_comes_with_its_events(service: ServiceThread) -> None:
    page = service.client.get("/asks/shop/cart-1").text
    assert 'hx-get="/asks/shop/cart-1/helps" hx-trigger="load, again"' in page
    assert "data-kept" in page
    response = service.client.get("/asks/shop/cart-1/helps", headers={"HX-Request": "true"})

    remedies = service.get("/api/v1/asks/shop/cart-1/why", remedies="true")["item"]["remedies"]
    assert remedies
    forms = re.findall(r'<input type="hidden" name="events" value="([^"]*)">', response.text)
    assert [json.loads(unescape(one)) for one in forms] == [one["events"] for one in remedies]
    for one in remedies:
        assert one["text"] in text_of(response)
    # Of another configuration one sees what it changes, and the rest when one asks for it.
    change = r"root\.web resources\.max\.vcore 8 14 .*The whole event"
    assert re.search(change, text_of(response))
    # A quota may be tried on the history first.
    assert 'href="/config?queue=root.web">the editor' in response.text
    for path in ("/asks/shop/front/helps", "/asks/no/one/helps"):
        assert "there is nothing to help." in page_text(service.client, path)


# PAGE-5
def test_what_a_button_would_lead_to_is_summed_up(tmp_path: Path) -> None:
    with ServiceThread(config=write_config(tmp_path)) as service:
        service.post(*EVENTS)
        events: list[dict[str, object]] = [
            {"op": "remove_node", "node": "n1"},
            {"op": "add_node", "node": "n2", "capacity": {"vcore": 32}},
        ]
        form = {"events": json.dumps(events)}
        tried = service.client.post("/events/try", data=form, headers=proof(service.client))

        assert "4 asks would be bound, and 1 ask would lose its node." in text_of(tried)
        assert "shop/front is released (node lost) from n1" in text_of(tried)
        # What is not there yet has no page.
        assert 'from <a href="/nodes/n1">n1</a>' in " ".join(tried.text.split())
        assert "is bound to n2" in text_of(tried)
        assert "/nodes/n2" not in tried.text
        form = {"events": json.dumps(events[:1])}
        tried = service.client.post("/events/try", data=form, headers=proof(service.client))
        assert "No ask would be bound, and 1 ask would lose its node." in text_of(tried)


# PAGE-42
@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("in 14.439512 s it may reclaim", "In 14.4 s it may reclaim."),
        ("in 754.4 s it may reclaim", "In 12 min 34 s it may reclaim."),
        ("in 20 s it may reclaim", "In 20 s it may reclaim."),
        ("app 'shob' is unknown; did you mean shop?", "App 'shob' is unknown; did you mean shop?"),
        ("root.a has 2.5 vcore of 3.25", "root.a has 2.5 vcore of 3.25."),
    ],
)
def test_a_reason_says_times_with_the_digits_that_matter(message: str, shown: str) -> None:
    assert sentence(message) == shown


# PAGE-43, OUTLOOK-33
def test_a_machine_is_advice_without_a_button(service: ServiceThread) -> None:
    page = service.client.get("/asks/train/worker-0/helps", params={"whole": "yes"})

    advice = "This is advice: it needs a machine, and no event makes one."
    assert f"5 vcore more on node n1 Less is not enough. {advice}" in text_of(page)
    assert f"another node like n1, with 16 vcore Less is not enough. {advice}" in text_of(page)
    assert "_node" not in page.text
    assert page.text.count("Apply</button>") == 1


# PAGE-43, OUTLOOK-31, OUTLOOK-32
def test_what_lets_a_gang_start_at_all_is_said_first(tmp_path: Path) -> None:
    with ServiceThread(config=write_config(tmp_path)) as service:
        member = {"op": "add_ask", "app": "big", "ask": "m", "resources": {"vcore": 3}}
        service.post(
            {"op": "add_node", "node": "n1", "capacity": {"vcore": 16}},
            {"op": "add_app", "app": "old", "queue": "root.ml"},
            {
                "op": "add_ask",
                "app": "old",
                "ask": "x",
                "resources": {"vcore": 12},
                "run_for": "2h",
            },
            {"op": "add_app", "app": "big", "queue": "root.web"},
            {"op": "add_gang", "gang": "ns/big", "min_member": 4},
            {**member, "count": 4, "gang": "ns/big"},
        )
        lack = "The gang needs 12 vcore in all; its queue root.web may have 8."
        assert lack in page_text(service.client, "/gangs/ns/big")
        item = service.get("/api/v1/asks/big/m-0/why", remedies="true")["item"]
        assert [one["message"] for one in item["shortfalls"]] == [lack]
        first, *_ = item["remedies"]
        assert first["text"] == "12 vcore instead of 8 as max of root.web"
        assert (first["node"], first["applicable"]) == (None, True)
        assert 7_200 <= first["starts"] < 7_260
        text = page_text(service.client, "/asks/big/m-0/helps")
        assert text.startswith(
            "It cannot start as things are. Each of these changes alone lets big/m-0 start: "
            "12 vcore instead of 8 as max of root.web It then starts at 20"
        )
        service.post(*first["events"])
        item = service.get("/api/v1/asks/big/m-0/why", forecast="true")["item"]
        assert item["shortfalls"] == []
        assert item["starts_at"] == pytest.approx(first["starts"], abs=0.1)


# PAGE-49
def test_what_would_help_a_gang_is_said_of_the_gang(service: ServiceThread) -> None:
    helps = "/asks/train/worker-0/helps"
    text = page_text(service.client, helps, whole="yes")

    assert "Each of these changes alone lets the gang start at once" in text
    assert "train/worker-0" not in text.replace('"ask": "train/worker-0"', "")
    assert "bound on" not in text
    own = page_text(service.client, helps)
    assert "gets train/worker-0 bound at once, as its gang can start then" in own


# PAGE-42, PAGE-44
def test_an_ask_that_is_over_keeps_its_page(tmp_path: Path) -> None:
    with ServiceThread(config=write_config(tmp_path)) as service:
        service.post(*EVENTS)
        service.post(release("front", message="done"))
        text = page_text(service.client, "/asks/shop/front")

        assert "front over" in text
        assert re.search(r"released \(completed\) on n1 : done.*bound on n1.*assigned", text)
        assert "This is what was decided since the service started" in text
        service.post({"op": "remove_app", "app": "shop"})
        for path in ("/apps/shop", "/asks/shop/front"):
            assert "is over: it is in the state no more" in page_text(service.client, path)
        unknown = service.client.get("/asks/shopp/front")
        assert unknown.status_code == 404
        assert "shopp/front" in text_of(unknown)


# PAGE-44
def test_a_history_goes_on_in_the_store(tmp_path: Path) -> None:
    config, state = write_config(tmp_path), tmp_path / "state"
    with ServiceThread(state, config) as service:
        service.post(*EVENTS)
        service.post(release("front"))
        first = page_text(service.client, "/asks/shop/front")
    with ServiceThread(state, config) as service:
        page = service.client.get("/asks/shop/front")
        assert "released" not in text_of(page)
        more = re.search(r'hx-get="(/asks/shop/front/earlier)" hx-vals=\'([^\']+)\'', page.text)
        assert more is not None
        earlier = page_text(service.client, more[1], **json.loads(more[2]))

        lines = re.findall(r"(?:released \(completed\)|bound|assigned) on n1", first)
        assert lines == ["released (completed) on n1", "bound on n1", "assigned on n1"]
        assert re.findall(r"(?:released \(completed\)|bound|assigned) on n1", earlier) == lines
        assert "This is everything since it was added." in earlier
        wrong = service.client.get(more[1], params={"before": 10**9})
        assert wrong.status_code == 400


def history_of(page: str) -> tuple[list[str], list[str]]:
    """Return the decisions that a page shows about its subject, and about earlier ones of its name."""
    history = page.partition("History")[2]
    own, _, former = history.partition("An earlier ")
    form = r"assigned|bound|released \(\w+\)|added|refused|application \w+"
    return re.findall(form, own), re.findall(form, former)


ASK: Final[dict[str, object]] = {
    "op": "add_ask",
    "app": "shop",
    "ask": "again",
    "resources": {"vcore": 1},
}
APP: Final[dict[str, object]] = {"op": "add_app", "app": "shop", "queue": "root.web"}
LARGE: Final = {**ASK, "resources": {"vcore": 9}}


# PAGE-85
@pytest.mark.parametrize("together", [False, True])
def test_a_history_is_of_one_ask_alone(tmp_path: Path, *, together: bool) -> None:
    config, state = write_config(tmp_path), tmp_path / "state"
    path = "/asks/shop/again"
    with ServiceThread(state, config) as service:
        service.post(EVENTS[0], APP)
        service.post(ASK)
        first = service.get("/api/v1/asks")["time"]
        if together:
            gone: dict[str, object] = {"op": "remove_ask", "app": "shop", "ask": "again"}
            service.post(release("again"), ASK, gone, LARGE)
        else:
            service.post(release("again"))
            assert history_of(page_text(service.client, path)) == (
                ["released (completed)", "bound", "assigned"],
                [],
            )
            service.post(LARGE)
        assert history_of(page_text(service.client, path))[0] == ["added"]
        assert history_of(page_text(service.client, path, at=first))[0] == [
            "bound",
            "assigned",
            "added",
        ]
        assert "released (completed)" in history_of(page_text(service.client, path))[1]
        # An application that comes anew has a new history, and so has its ask.
        service.post({"op": "remove_app", "app": "shop"})
        service.post(APP, ASK)
        assert history_of(page_text(service.client, path))[0] == ["bound", "assigned", "added"]
        own, former = history_of(page_text(service.client, "/apps/shop"))
        assert own[-2:] == ["application New", "added"]
        assert own.count("assigned") == 1
        assert former.count("application New") == 1
    with ServiceThread(state, config) as service:
        page = service.client.get(path)
        more = re.search(r'hx-get="([^"]+/earlier)" hx-vals=\'([^\']+)\'', page.text)
        assert more is not None
        earlier = page_text(service.client, more[1], **json.loads(more[2]))
        assert re.findall(r"bound|assigned|released", earlier) == ["bound", "assigned"]
        assert "This is everything since it was added." in earlier
        service.post(release("again"))
        text = page_text(service.client, path)
        assert "again over" in text
        # Only its end is in memory; the rest of it, and no more, is in the store.
        assert history_of(text)[0] == ["released (completed)"]
        page = service.client.get(path)
        more = re.search(r'hx-get="([^"]+/earlier)" hx-vals=\'([^\']+)\'', page.text)
        assert more is not None
        earlier = page_text(service.client, more[1], **json.loads(more[2]))
        assert re.findall(r"bound|assigned|released", earlier) == ["bound", "assigned"]


# PAGE-85
def test_an_ask_that_was_over_at_the_start_is_shown_alone(tmp_path: Path) -> None:
    config, state = write_config(tmp_path), tmp_path / "state"
    with ServiceThread(state, config) as service:
        service.post(EVENTS[0], APP, ASK)
        service.post(release("again", message="the first"))
        service.post(ASK)
        service.post(release("again", message="the second"))
    with ServiceThread(state, config) as service:
        page = service.client.get("/asks/shop/again")
        more = re.search(r'hx-get="([^"]+/earlier)" hx-vals=\'([^\']+)\'', page.text)
        assert more is not None
        earlier = page_text(service.client, more[1], **json.loads(more[2]))
        assert re.findall(r"bound|assigned|released", earlier) == ["released", "bound", "assigned"]
        assert "the second" in earlier


# PAGE-44, PAGE-47
def test_the_past_is_shown_as_it_was(tmp_path: Path) -> None:
    with ServiceThread(tmp_path / "state", write_config(tmp_path)) as service:
        service.post(*EVENTS)
        then = service.get("/api/v1/asks")["time"]
        service.post(release("front", message="done"), {"op": "remove_app", "app": "train"})
        assert "train/worker" not in page_text(service.client, "/asks")

        text = page_text(service.client, "/asks/shop/front", at=then)
        assert "front bound" in text
        assert "bound on n1" in text
        assert "released" not in text
        text = page_text(service.client, "/asks/shop/cart-7", at=then)
        assert "QueueMax" in text
        assert "What would help is searched for in the present only" in text
        for path in ("/asks", "/apps/train", "/gangs", "/gangs/ml/bert", "/asks/train/worker-1"):
            page = service.client.get(path, params={"at": then})
            assert page.status_code == 200
            assert "ml/bert" in page.text or path == "/asks"
            assert "Apply" not in page.text
            for link in re.findall(r'<a href="(/(?:asks|apps|gangs)/[^"]+)"', page.text):
                assert "at=" in link
        assert service.client.get("/gangs/ml/bert").status_code == 200


# PAGE-45
def test_the_output_of_a_command_is_shown(tmp_path: Path) -> None:
    with running_commands(tmp_path, "--state", str(tmp_path / "state"), config=CONFIG) as served:
        events = [
            {"op": "add_app", "app": "a", "queue": "root.ml"},
            {
                "op": "add_ask",
                "app": "a",
                "ask": "hello",
                "resources": {"vcore": "1m"},
                "command": "yes hello | head -c 20000; echo '<the end>'",
            },
        ]
        served.client.post("/api/v1/events", json=events)
        until(lambda: "hello over" in text_of(served.client.get("/asks/a/hello")))
        end = served.client.get("/asks/a/hello/output")

        assert "The last 16 KiB" in text_of(end)
        assert "&lt;the end&gt;" in end.text
        whole = served.client.get("/asks/a/hello/output.txt")
        assert whole.headers["content-type"].startswith("text/plain")
        assert whole.text == "hello\n" * 3333 + "he" + "<the end>\n"
        assert "has no output" in text_of(served.client.get("/asks/a/other/output"))


# PAGE-46
def test_an_application_has_its_asks_and_gangs(service: ServiceThread) -> None:
    text = page_text(service.client, "/apps/train")

    item = service.get("/api/v1/apps/train")["item"]
    assert f"train {item['state']}" in text
    for state in item["states"]:
        assert f"{state['state']} 2" in text
    assert "3 pending 0 parked 0 waiting 0 bound" in text
    assert "Gangs ml/bert" in text
    assert "train/worker-2 pending" in text
    assert "All asks of shop" in page_text(service.client, "/apps/shop")
    assert service.client.get("/apps/none").status_code == 404


# PAGE-47
def test_who_may_not_apply_a_change_sees_why(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{line_of(role, secret)}\n" for role, secret in SECRETS.items()))
    with Served(tmp_path, "--tokens", str(tokens), config=CONFIG) as served:
        admin = {"Authorization": f"Bearer {SECRETS[Role.ADMIN]}"}
        served.client.post("/api/v1/events", json=EVENTS, headers=admin)
        helps, ask, own = "/asks/shop/cart-1/helps", "/asks/shop/cart-1", "/asks/train/worker-0"

        log_in(served.client, Role.READER)
        shown = page_text(served.client, helps)
        assert "This needs the role submitter" in shown
        assert '"op"' in shown
        assert "Apply" not in shown
        assert "Cancel this" not in page_text(served.client, ask)
        log_in(served.client, Role.SUBMITTER)
        shown = page_text(served.client, helps)
        assert "op: this needs the role admin" in shown
        assert "Apply" not in shown
        assert "app: 'shop' belongs to 'ann'" in page_text(served.client, ask)
        assert "Cancel this ask" in page_text(served.client, own)
        assert "belongs to" not in page_text(served.client, own)
        log_in(served.client, Role.ADMIN)
        assert "Apply" in page_text(served.client, helps)


# PAGE-48
def test_gangs_are_found(service: ServiceThread) -> None:
    text = page_text(service.client, "/gangs")

    assert f"ml/bert Gathering 0 of 3 needed, 3 missing {Code.GANG_CYCLE_INVALID.summary}" in text
    assert rows(service, "/gangs", name="BER", state="Gathering", queue="root.ml") == ["ml/bert"]
    for filters in ({"name": "x"}, {"state": "Satisfied"}, {"queue": "root.web"}):
        assert rows(service, "/gangs", **filters) == []
        assert "No gang matches" in page_text(service.client, "/gangs", **filters)


# PAGE-49
def test_a_gang_sums_up_why_it_does_not_start(service: ServiceThread) -> None:
    text = page_text(service.client, "/gangs/ml/bert")

    assert "Needs 3 members with a node before any of them is bound" in text
    assert "Missing 3 members with a node" in text
    assert "Topology prefer: members take nodes with one value of rack first" in text
    assert "Cycle not valid" in text
    assert f"3 members : {Code.GANG_CYCLE_INVALID.summary} GangCycleInvalid" in text
    message = service.get("/api/v1/asks/train/worker-0")["item"]["message"]
    assert f"train/worker-0 : {message}" in text
    assert (
        'hx-get="/asks/train/worker-0/helps?whole=yes"' in service.client.get("/gangs/ml/bert").text
    )
    assert service.client.get("/gangs/ml/none").status_code == 404


# PAGE-49
def test_the_example_of_a_reason_is_the_member_that_was_added_first(tmp_path: Path) -> None:
    member = {"op": "add_ask", "app": "train", "gang": "ns/pair", "resources": {"vcore": 5}}
    with ServiceThread(config=write_config(tmp_path)) as service:
        service.post(
            {"op": "add_node", "node": "n1", "capacity": {"vcore": 11}},
            {"op": "add_app", "app": "train", "queue": "root.ml"},
            {"op": "add_gang", "gang": "ns/pair", "min_member": 3, "mode": "NonStrict"},
            # The second one has the higher priority, so it gets its node first.
            {**member, "ask": "worker-9", "priority": 1},
            {**member, "ask": "worker-10", "priority": 2},
            {**member, "ask": "worker-11", "priority": 0},
        )

        text = page_text(service.client, "/gangs/ns/pair")

        assert "2 members : holds a node and waits for the rest of its gang" in text
        assert "For example train/worker-9 :" in text
