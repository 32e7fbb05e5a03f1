"""A web service that schedules jobs: Starlette on asyncio, and Muster beside it.

    uvicorn --app-dir examples/web app:app

    curl -d '{"queue": "root.batch", "name": "report", "vcore": 3}' localhost:8000/jobs
    curl 'localhost:8000/jobs/report?wait=5'      until it has a node, five seconds at the most
    curl localhost:8000/queues
    curl -X DELETE localhost:8000/jobs/report

A job is an application with one ask. It holds its node until it is deleted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import muster.asyncio
from muster import ClosedSchedulerError, EventError, MusterError, RefusedError

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: batch, resources: {max: {vcore: 4}}}
          - {name: urgent}
"""
ASK = "job"
STATUS: dict[type[Exception], int] = {EventError: 400, RefusedError: 409, ClosedSchedulerError: 503}


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
    """Run the scheduler for as long as the service runs."""
    mode = os.environ.get("MUSTER_MODE", "thread")  # or: guest
    async with muster.asyncio.open_scheduler(CONFIG, mode=mode) as scheduler:
        for node in ("node-1", "node-2"):
            await scheduler.add_node(node, {"vcore": 4, "memory": "8Gi"})
        app.state.scheduler = scheduler
        yield


def scheduler_of(request: Request) -> muster.asyncio.Scheduler:
    """Return the scheduler that the service runs."""
    return cast("muster.asyncio.Scheduler", request.app.state.scheduler)


async def add_job(request: Request) -> Response:
    """Submit a job."""
    try:
        job: dict[str, Any] = dict(await request.json())
    except (TypeError, ValueError):
        raise EventError("the body has to be a map in JSON") from None
    scheduler = scheduler_of(request)
    amounts: dict[str, float | str] = {
        kind: job[kind] for kind in ("vcore", "memory") if kind in job
    }
    app = await scheduler.add_app(job.get("name", ""), job.get("queue", "root.batch"))
    try:
        await app.add_ask(ASK, amounts, priority=job.get("priority"))
    except MusterError:
        await app.remove()
        raise
    return JSONResponse({"name": app.name}, status_code=201)


async def show_job(request: Request) -> Response:
    """Say where a job is; with ``wait``, wait so many seconds until it has a node."""
    scheduler, name = scheduler_of(request), request.path_params["name"]
    ask = scheduler.ask(name, ASK)
    try:
        wait = float(request.query_params.get("wait", 0))
    except ValueError as error:
        raise EventError(f"wait: {error}") from None
    with suppress(TimeoutError, MusterError):
        async with asyncio.timeout(wait):
            await ask.bound()
    app = (await scheduler.snapshot()).apps.get(name)
    if app is None:
        return JSONResponse({"error": f"there is no job {name!r}"}, status_code=404)
    (job,) = app.asks
    place, explanation = job.place.value, await ask.why()
    why = None if explanation is None else str(explanation)
    return JSONResponse({"name": name, "state": place, "node": job.node, "why": why})


async def delete_job(request: Request) -> Response:
    """Remove a job, wherever it is."""
    try:
        await scheduler_of(request).remove_app(request.path_params["name"])
    except RefusedError as error:
        return JSONResponse({"error": str(error)}, status_code=404)
    return Response(status_code=204)


async def show_queues(request: Request) -> Response:
    """Say what every queue holds and waits for, in base units."""
    queues = (await scheduler_of(request).snapshot()).queues
    shown = {
        path: {"allocated": dict(queue.allocated), "pending": dict(queue.pending)}
        for path, queue in queues.items()
    }
    return JSONResponse(shown)


async def refuse(_: Request, error: Exception) -> Response:
    """Answer with what the scheduler says against it."""
    return JSONResponse({"error": str(error)}, status_code=STATUS.get(type(error), 500))


app = Starlette(
    routes=[
        Route("/jobs", add_job, methods=["POST"]),
        Route("/jobs/{name}", show_job),
        Route("/jobs/{name}", delete_job, methods=["DELETE"]),
        Route("/queues", show_queues),
    ],
    exception_handlers=dict.fromkeys(STATUS, refuse),
    lifespan=lifespan,
)
