"""A list, then a watch: the mirror of a real API server, despite all that may break."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, final

import attrs
import pytest
import trio

from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api, ApiError, Resource, SilenceError
from muster.kubernetes._reflector import Change, Reflector
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.proxy import Answer, Cut, Proxy

MAPS = Resource("v1", "configmaps")
GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


def config_map(name: str, value: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"value": value},
    }


@final
@attrs.define
class Mirror:
    """The objects of a reflector, put together from its events."""

    plane: ControlPlane
    reflector: Reflector | None = None
    objects: dict[str, str] = attrs.field(factory=dict[str, str])
    story: list[str] = attrs.field(factory=list[str])

    async def take(self, changes: list[Change]) -> None:
        for change in changes:
            old, new = change.old, change.new
            metadata = (new or old or {})["metadata"]
            name = metadata["name"]
            if metadata["namespace"] != "default" or name.startswith("kube-"):
                continue  # of the cluster, or of other tests
            if new is None:
                self.story.append(f"-{name}")
                del self.objects[name]
            else:
                self.story.append(f"{'+' if old is None else '~'}{name}")
                self.objects[name] = new["data"]["value"]

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - of a real server
                await trio.sleep(0.02)

    async def set(self, name: str, value: str = "") -> None:
        """Make an object or change it, as another client."""
        with self.plane.client() as client:
            url = f"/api/v1/namespaces/default/configmaps/{name}"
            found = await trio.to_thread.run_sync(
                lambda: client.put(url, json=config_map(name, value))
            )
            if found.status_code == 404:
                await trio.to_thread.run_sync(
                    self.plane.post, MAPS.path(None, "default"), config_map(name, value)
                )

    async def remove(self, name: str) -> None:
        await trio.to_thread.run_sync(self.plane.delete, MAPS.path(name, "default"))


@asynccontextmanager
async def mirror_of(plane: ControlPlane, url: str, user: str = "admin") -> AsyncGenerator[Mirror]:
    """Follow the ConfigMaps of a control plane through a URL."""
    mirror = Mirror(plane)
    async with Api(read_kubeconfig([plane.kubeconfig(user, url)])) as api:
        mirror.reflector = Reflector(api, MAPS, mirror.take)
        async with trio.open_nursery() as nursery:
            with trio.fail_after(PATIENCE_S):
                await nursery.start(mirror.reflector.run)
            yield mirror
            nursery.cancel_scope.cancel()


@pytest.fixture
def name() -> str:
    return f"it-{uuid.uuid4().hex[:8]}"


async def test_what_is_there_comes_first(plane: ControlPlane, name: str) -> None:
    plane.post(MAPS.path(None, "default"), config_map(name, "here"))

    async with mirror_of(plane, plane.url) as mirror:
        assert mirror.objects[name] == "here"
        await mirror.set(name, "changed")
        await mirror.wait_for(lambda: mirror.objects[name] == "changed")
        await mirror.remove(name)
        await mirror.wait_for(lambda: name not in mirror.objects)

    assert [one for one in mirror.story if one[1:] == name] == [f"+{name}", f"~{name}", f"-{name}"]


async def test_a_list_of_many_pages(plane: ControlPlane, name: str) -> None:
    for number in range(1_100):
        plane.post(MAPS.path(None, "default"), config_map(f"{name}-{number}"))
    async with mirror_of(plane, plane.url) as mirror:
        found = {one for one in mirror.objects if one.startswith(name)}
    with plane.client() as client:
        client.delete(MAPS.path(None, "default"))

    assert len(found) == 1_100


@pytest.mark.parametrize("after", [0, 1, 100, 517])
async def test_a_watch_that_breaks_goes_on_where_it_was(
    plane: ControlPlane, proxy: Proxy, name: str, after: int
) -> None:
    proxy.add("watch=1", *[Cut(after)] * 3)
    async with mirror_of(plane, proxy.url) as mirror:
        for number in range(20):
            await mirror.set(name, str(number))
        await mirror.wait_for(lambda: mirror.objects.get(name) == "19")
        await mirror.remove(name)
        await mirror.wait_for(lambda: name not in mirror.objects)

    lists = [one for one in proxy.requests if "watch=1" not in one]
    watches = [one for one in proxy.requests if "watch=1" in one]
    assert len(lists) == 1
    assert len(watches) > 3


async def test_what_was_missed_is_the_difference_of_two_lists(
    plane: ControlPlane, proxy: Proxy, name: str
) -> None:
    stays, goes, again = (f"{name}-{one}" for one in ("stays", "goes", "again"))
    for one in (stays, goes, again):
        plane.post(MAPS.path(None, "default"), config_map(one, "old"))

    async with mirror_of(plane, proxy.url) as mirror:
        mirror.story.clear()
        proxy.add("watch=1", Answer(410, GONE), Answer(500))
        proxy.add("configmaps?limit", Answer(429, {}, {"Retry-After": "1"}), Cut())
        proxy.cut_all()
        await mirror.remove(goes)
        await mirror.remove(again)
        await mirror.set(again, "new")
        await mirror.wait_for(
            lambda: mirror.objects.get(again) == "new" and goes not in mirror.objects
        )
        await mirror.set(stays, "new")
        await mirror.wait_for(lambda: mirror.objects[stays] == "new")

    own = [one for one in mirror.story if name in one]
    assert sorted(own[:-1]) == [f"+{again}", f"-{again}", f"-{goes}"]
    assert own[-1] == f"~{stays}"


async def test_an_error_in_a_watch_means_a_new_list(
    plane: ControlPlane, proxy: Proxy, name: str
) -> None:
    event = {"type": "ERROR", "object": GONE}
    async with mirror_of(plane, proxy.url) as mirror:
        proxy.add("watch=1", Answer(200, event))
        proxy.cut_all()
        await mirror.set(name, "new")
        await mirror.wait_for(lambda: mirror.objects.get(name) == "new")

    assert len([one for one in proxy.requests if "configmaps?limit" in one]) == 2


async def test_a_user_that_may_not_list_gets_an_error(plane: ControlPlane) -> None:
    async with Api(read_kubeconfig([plane.kubeconfig("nobody")])) as api:
        with pytest.raises(ApiError) as refused:
            await api.list_all(MAPS)

    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert "configmaps is forbidden" in str(refused.value)


@pytest.mark.parametrize(
    ("server_name", "is_its"), [("kubernetes.default", True), ("other", False)]
)
async def test_the_certificate_has_the_name_that_is_given(
    plane: ControlPlane, server_name: str, is_its: bool
) -> None:
    access = attrs.evolve(read_kubeconfig([plane.kubeconfig()]), server_name=server_name)
    async with Api(access) as api:
        if is_its:
            assert (await api.list_all(Resource("v1", "namespaces"))).objects
        else:
            with pytest.raises(SilenceError, match="certificate"):
                await api.list_all(MAPS)


async def test_an_answer_that_does_not_come(plane: ControlPlane, proxy: Proxy, name: str) -> None:
    path = MAPS.path(None, "default")
    async with Api(read_kubeconfig([plane.kubeconfig("admin", proxy.url)])) as api:
        proxy.add("POST", Cut())
        with pytest.raises(SilenceError):
            await api.create(path, config_map(name))
        with pytest.raises(ApiError) as refused:
            await api.create(path, config_map(name))
    async with mirror_of(plane, plane.url) as mirror:
        assert name in mirror.objects

    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")


async def test_the_server_goes_away_and_comes_back(plane: ControlPlane, name: str) -> None:
    async with mirror_of(plane, plane.url) as mirror:
        assert mirror.reflector is not None
        reflector = mirror.reflector
        plane.kill("server")
        await mirror.wait_for(lambda: reflector.silent_since is not None)
        assert "does not answer" in reflector.trouble
        await trio.to_thread.run_sync(plane.start_server)
        await mirror.set(name, "after")
        await mirror.wait_for(lambda: mirror.objects.get(name) == "after")

        assert (reflector.silent_since, reflector.trouble) == (None, "")
