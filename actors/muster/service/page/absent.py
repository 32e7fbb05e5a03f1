"""What is not there at a moment, as a page: when it came, or since when it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.page.moment import Moment
from muster.service.page.rendering import shown
from muster.service.past.existence import Sort, Thing, existence_of
from muster_core.values.gang_names import canonical_gang

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.page.viewed import Viewed
    from muster.service.problems import Problem
    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps

_SORTS: Final = {
    "/asks/{app}/{ask}": Sort.ASK,
    "/apps/{app}": Sort.APP,
    "/gangs/{name:path}": Sort.GANG,
    "/nodes/{name:path}": Sort.NODE,
    "/queues/{path:path}": Sort.QUEUE,
}
"""The pages of single things."""


def thing_of(path: str, names: dict[str, str]) -> Thing | None:
    """Return what a page is about; None if it is not about a single thing.

    Args:
        path: The path of the page, with ``{name}`` for its parts.
        names: The parts.
    """
    sort = _SORTS.get(path)
    match sort:
        case None:
            return None
        case Sort.ASK:
            return Thing(sort, names["ask"], names["app"])
        case Sort.APP:
            return Thing(sort, names["app"])
        case Sort.NODE:
            return Thing(sort, names["name"])
        case Sort.QUEUE:
            return Thing(sort, names["path"].lower())
        case Sort.GANG:
            try:
                return Thing(sort, canonical_gang(names["name"]))
            except ValueError:
                return None  # No gang has this name.


# PAGE-69
async def absent(viewed: Viewed, thing: Thing, problem: Problem) -> Response:
    """Say when something came that is not there at a moment, or since when it is gone.

    Args:
        viewed: The request for its page.
        thing: What is not there.
        problem: What is said where neither is known.
    """
    service, at_us = viewed.service, viewed.moment.now_us()
    directory = service.options.state
    assert directory is not None, "there is a history"

    def read(looking: Looking) -> Steps[tuple[int, int]]:
        yield
        return looking.machine.batches, looking.machine.requests

    entered = (await Moment(service, viewed.request).seen(read)).value
    found = await service.past.work(
        viewed.request, lambda gone: existence_of(directory, thing, at_us, entered, gone)
    )
    return shown(
        viewed,
        "absent.html",
        status=problem.status,
        problem=problem,
        thing=thing,
        at_us=at_us,
        found=found,
    )
