"""Random programs, created from drawn bytes."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Final, cast, final

import attrs

from muster.testing.fuzz._drawing.choices import Choices
from muster.testing.fuzz._drawing.configurations import draw_config, leaves_of
from muster.testing.fuzz._drawing.moves import Moves, S
from muster.testing.fuzz._program import (
    Bind,
    Client,
    Config,
    Fate,
    How,
    Leave,
    Order,
    Program,
    Store,
    Watcher,
)

_GENERAL: Final = slice(0, 100)
_CONFIGS: Final = slice(100, 280)
_BEGINNING: Final = slice(280, 360)

FRAME_BYTES: Final = _BEGINNING.stop
"""How many bytes are drawn for a program as a whole."""

STEP_BYTES: Final = 22
"""How many bytes are drawn for a step."""

_BUFFERS: Final = (64, 1, 2, 5, 1024)
_KINDS: Final = (None, None, ("bound", "released"), ("app_state",), ("gang_satisfied", "bound"))
_FATES: Final = (
    Fate.FINISHES,
    Fate.GOES_ON,
    Fate.FINISHES,
    Fate.GOES_ON,
    Fate.FAILS_BEFORE,
    Fate.FAILS_AFTER,
    Fate.HANGS,
    Fate.FORGETS,
    Fate.REPORTS,
)


@final
@attrs.frozen
class Drawn:
    """The bytes from which a program is created.

    Attributes:
        frame: The bytes for the program as a whole.
        clients: The bytes for each step of each client.
    """

    frame: bytes = b""
    clients: tuple[tuple[bytes, ...], ...] = ()

    def token(self) -> str:
        """Return the bytes as a short text, for a command that replays the program."""
        parts = [self.frame.hex(), [[step.hex() for step in steps] for steps in self.clients]]
        packed = zlib.compress(json.dumps(parts, separators=(",", ":")).encode(), 9)
        return base64.urlsafe_b64encode(packed).decode()

    @staticmethod
    def of_token(token: str) -> Drawn:
        """Return the bytes of a text from :meth:`token`.

        Raises:
            ValueError: If the text is invalid.
        """
        try:
            text = zlib.decompress(base64.urlsafe_b64decode(token.encode()))
            frame, clients = cast("tuple[str, list[list[str]]]", json.loads(text))
            steps = tuple(tuple(bytes.fromhex(one) for one in client) for client in clients)
            return Drawn(bytes.fromhex(frame), steps)
        except (zlib.error, TypeError, ValueError) as error:
            msg = "no program can be made of this text"
            raise ValueError(msg) from error


@final
@attrs.frozen
class Given:
    """The parts of programs that are given instead of drawn.

    Attributes:
        config: The configuration with which all programs are opened, or None to draw one.
        binder: Whether a binder is given, so that none is planned.
    """

    config: Config | None = None
    binder: bool = False


NOTHING_GIVEN: Final = Given()


def draw_program(drawn: Drawn, given: Given = NOTHING_GIVEN) -> Program:
    """Create a program from bytes; the same bytes give the same program."""
    choices = Choices(drawn.frame[_GENERAL])
    order = _order(choices)
    leave = _leave(choices)
    binds = () if given.binder else _binds(choices)
    timeout_us, attempts = choices.of((30 * S, 2 * S, S)), choices.of((3, 1, None, 2))
    watchers = tuple(_watcher(choices) for _ in range(choices.number(4)))
    clock_us = choices.of((0, 0, 12_345_678_901, 1_700_000_000_123_457))
    places = [choices.one_in(3) for _ in range(6)]
    cuts = [choices.large() % 900 if choices.one_in(8) else None for _ in range(6)]
    store = _store(choices)
    if store is not None and store.restarts:
        attempts = None  # A new process does not know how often work has failed.
    if attempts is None and binds:
        binds = (*binds, Bind())  # Otherwise work that always fails would run for ever.
    choices = Choices(drawn.frame[_CONFIGS])
    if given.config is None:
        configs = [draw_config(choices) for _ in range(choices.of((1, 1, 2, 3)))]
        config = None if choices.one_in(12) else configs[0]
        leaves = [path for one in configs for path in leaves_of(one)]
    else:
        configs, config = [given.config], given.config
        leaves = leaves_of(given.config)
    choices = Choices(drawn.frame[_BEGINNING])
    moves = Moves(choices, leaves, len(configs))
    prelude = tuple(moves.beginning(choices))
    clients = tuple(
        Client(tuple(moves.step(Choices(step)) for step in steps), outside, cut)
        for steps, outside, cut in zip(drawn.clients, places, cuts, strict=False)
    )
    return Program(
        config=config,
        configs=tuple(configs),
        clock_us=clock_us,
        prelude=prelude,
        clients=clients,
        watchers=watchers,
        binds=binds,
        bind_timeout_us=timeout_us,
        bind_attempts=attempts,
        leave=leave,
        order=order,
        store=store,
    )


def _order(choices: Choices) -> Order:
    return Order(
        chance=choices.large(),
        unfair=choices.one_in(3),
        delays=None if choices.one_in(4) else choices.large(),
        longest=choices.of((3, 1, 2, 8)),
        pauses=choices.one_in(3),
    )


def _store(choices: Choices) -> Store | None:
    if not choices.one_in(5):
        return None
    return Store(choices.of((50_000, 1, 5, 20)), restarts=choices.one_in(2))


def _leave(choices: Choices) -> Leave:
    how = choices.of((How.DONE, How.DONE, How.DONE, How.EARLY, How.ERROR, How.CANCELLED))
    at = choices.large() % (60, 300, 1500)[choices.number(3)]
    return Leave(how, at if how is not How.DONE else 0)


def _binds(choices: Choices) -> tuple[Bind, ...]:
    bad = choices.of((0, 2, 1))
    binds = [
        Bind(
            fate=choices.of(_FATES if bad else _FATES[:2]),
            start_us=choices.of((0, 0, S, 1, 5 * S)),
            work_us=choices.of((S, 3 * S, 0, 10 * S)),
            cleanup_us=choices.of((0, 0, 0, S, 4 * S)),
            pause=choices.of((0, 1, 3)),
        )
        for _ in range(1 + choices.number(4))
    ]
    return () if choices.one_in(3) else tuple(binds)


def _watcher(choices: Choices) -> Watcher:
    wanted: dict[str, object] = {
        "buffer": choices.of(_BUFFERS),
        "lag": choices.of(("drop", "skip")),
    }
    optional = {
        "kinds": choices.of(_KINDS),
        "app": choices.of((None, None, None, "a0")),
        "queue": choices.of((None, None, None, "root.p", "root.q")),
        "gang": choices.of((None, None, None, None, "default/g0")),
        "where": choices.of((None, None, None, 0, 1)),
    }
    return Watcher(
        wanted={**wanted, **{name: said for name, said in optional.items() if said is not None}},
        together=choices.one_in(3),
        pause=choices.of((0, 0, 2, 7)),
        pause_us=choices.of((0, 0, 0, S)),
        leaves_after=choices.of((None, None, None, 1, 5)),
        outside=choices.one_in(2),
    )
