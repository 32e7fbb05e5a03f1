"""What labels and annotations say of a gang.

OBJECT-16: the keys of Koordinator, and those of the community, in which a member says to
which gang it belongs and what that gang needs; and those of a PodGroup. All other keys are
somebody else's, and kept out. Where several keys say the same, they have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast, final

import attrs

from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.gangs import (
    GROUPS,
    WRITTEN_MEMBERS,
    WRITTEN_MODE,
    WRITTEN_NAME,
    WRITTEN_TRUTH,
    WRITTEN_WAIT,
    full_name,
)
from muster.feeds._fields.kinds import FieldError, Kind, as_written, refused, told
from muster.feeds._fields.texts import NAME, WORD
from muster_core.gangs.definition import GangFields
from muster_core.values.gang_names import DEFAULT_NAMESPACE

T = TypeVar("T")

KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
COMMUNITY: Final = "pod-group.scheduling.sigs.k8s.io"


@final
@attrs.frozen
class Key:
    """What the value of one key means, which speaks of a gang.

    Attributes:
        says: What of the gang it says: an attribute of :class:`GangFields`, or one of
            :data:`NAMES_IT` and :data:`TIMED_OUT`.
        kind: What its value may be; where that is None nothing is said.
    """

    says: str
    kind: Kind[object]


NAMES_IT: Final = "gang"
"""What a key says that names the gang."""

TIMED_OUT: Final = "timed_out"
"""What a key says that marks the gang as timed out."""


def _key(says: str, kind: Kind[T]) -> Key:
    return Key(says, Kind[object](kind.name, kind.parse, kind.normal))


_TOTAL: Final = _key("total", WRITTEN_MEMBERS)
_MODE: Final = _key("mode", WRITTEN_MODE)
_GROUPS: Final = _key("groups", GROUPS)
_NAME: Final = _key(NAMES_IT, WRITTEN_NAME)
_MIN_MEMBER: Final = _key("min_member", WRITTEN_MEMBERS)

OBJECT_KEYS: Final[Mapping[str, Key]] = {
    f"{KOORDINATOR}/total-number": _TOTAL,
    f"{KOORDINATOR}/mode": _MODE,
    f"{KOORDINATOR}/groups": _GROUPS,
    f"{KOORDINATOR}/gang-groups": _GROUPS,
}
"""What annotations of a PodGroup say."""

MEMBER_KEYS: Final[Mapping[str, Key]] = {
    f"{KOORDINATOR}/name": _NAME,
    COMMUNITY: _NAME,
    f"{COMMUNITY}/name": _NAME,
    "scheduling.x-k8s.io/pod-group": _NAME,
    "scheduling.k8s.io/group-name": _NAME,
    f"{KOORDINATOR}/min-available": _MIN_MEMBER,
    f"{COMMUNITY}/min-available": _MIN_MEMBER,
    f"{KOORDINATOR}/waiting-time": _key("wait_us", WRITTEN_WAIT),
    **OBJECT_KEYS,
    f"{KOORDINATOR}/timeout": _key(TIMED_OUT, WRITTEN_TRUTH),
}
"""What labels and annotations of a member say."""


# -- maps of annotations --------------------------------------------------------------------


@final
@attrs.frozen
class Saying:
    """What one label or annotation says of a gang.

    Attributes:
        key: Its key.
        says: What of the gang it says; see :class:`Key`.
        value: The typed value.
        written: The value as it stands there, for messages.
    """

    key: str
    says: str
    value: object
    written: Raw = attrs.field(eq=False)


@final
@attrs.frozen
class Marks:
    """Labels or annotations.

    Attributes:
        texts: The texts that do not speak of a gang.
        sayings: What the others say of one, in the order of the text.
    """

    texts: Mapping[str, str] = attrs.field(factory=dict[str, str])
    sayings: tuple[Saying, ...] = ()


def marks(keys: Mapping[str, Key]) -> Kind[Marks]:
    """Make the kind of a map of labels or annotations, some of which speak of a gang."""

    def read(key: str, part: Raw, texts: dict[str, str], sayings: list[Saying]) -> None:
        NAME.parse(key)
        known = keys.get(key)
        if known is None:
            texts[key] = WORD.parse(part)
        elif (value := known.kind.parse(part)) is not None:
            sayings.append(Saying(key, known.says, value, part))

    def parse(value: Raw) -> Marks:
        if not isinstance(value, dict):
            raise refused(value, "is not a map")
        made: tuple[dict[str, str], list[Saying]] = {}, []
        for key, part in value.items():
            try:
                read(str(key), part, *made)
            except FieldError as error:
                raise error.inside(f".{key}") from None
        return Marks(made[0], tuple(made[1]))

    return Kind("map of texts", parse, lambda value: _marks_normal(keys, value))


def _marks_normal(keys: Mapping[str, Key], value: Raw) -> Raw:
    if not isinstance(value, dict):
        return as_written(value)
    return {
        str(key): (keys[key].kind if key in keys else WORD).normal(part)
        for key, part in value.items()
    }


MEMBER_MARKS: Final = marks(MEMBER_KEYS)
OBJECT_MARKS: Final = marks(OBJECT_KEYS)


# -- what all of it comes to ----------------------------------------------------------------


@final
@attrs.frozen
class Place:
    """Where something stands, and how it is written there."""

    path: str
    written: Raw

    def differs(self, other: Place) -> FieldError:
        """Make the error that this says something else than what stands elsewhere."""
        told_other = f"{told(other.written)} of {other.path}"
        return FieldError(f"{told(self.written)} differs from {told_other}", self.path)


@final
@attrs.frozen
class Spoken:
    """Everything that is said of one gang, and where.

    Attributes:
        values: The typed values, by what they say; see :class:`Key`.
        places: Where each stands.
    """

    values: Mapping[str, object]
    places: Mapping[str, Place]

    @property
    def fields(self) -> GangFields:
        """Give what defines the gang.

        Raises:
            FieldError: If there are fewer members than it needs.
        """
        named = (attribute.name for attribute in attrs.fields(GangFields))
        make = cast("Callable[..., GangFields]", GangFields)
        fields = make(**{name: self.values.get(name) for name in named})
        if fields.lacks_total():
            total_at, least_at = self.places["total"], self.places["min_member"]
            msg = f"{told(total_at.written)} is less than {told(least_at.written)}"
            raise FieldError(f"{msg} of {least_at.path}", total_at.path)
        return fields


def spoken(found: Mapping[str, Marks], namespace: str = DEFAULT_NAMESPACE) -> Spoken:
    """Put together what is said of a gang in several places.

    Args:
        found: Labels or annotations, by the path of the field that they stand in.
        namespace: The namespace of a gang whose name gives none.

    Raises:
        FieldError: If two say something different, or the gang has an illegal name.
    """
    values: dict[str, object] = {}
    places: dict[str, Place] = {}
    for path, saying in ((path, part) for path, some in found.items() for part in some.sayings):
        place = Place(f"{path}.{saying.key}", saying.written)
        value = saying.value
        if saying.says == NAMES_IT:
            value = _named(saying.written, namespace, place)
        if values.setdefault(saying.says, value) != value:
            raise place.differs(places[saying.says])
        places.setdefault(saying.says, place)
    return Spoken(values, places)


def _named(written: Raw, namespace: str, place: Place) -> str:
    try:
        return full_name(written, namespace)
    except FieldError as error:
        raise error.inside(place.path) from None


@final
@attrs.frozen
class Membership:
    """What an ask says of its gang, as the attributes of an event are called."""

    gang: str | None = None
    says: GangFields = attrs.field(factory=GangFields)
    timed_out: bool = False


def membership(said: Spoken, gang: str | None = None) -> Membership:
    """Give the gang of an ask, and what annotations say of it.

    Args:
        said: What the annotations say.
        gang: The gang that is named elsewhere, or None.

    Raises:
        FieldError: If they say something of a gang that nobody names, or of another one.
    """
    named = said.values.get(NAMES_IT, gang)
    if gang is not None and named != gang:
        raise Place("gang", gang).differs(said.places[NAMES_IT])
    if named is None and said.places:
        place = next(iter(said.places.values()))
        msg = f"{told(place.written)} is said of a gang, but none is named: add {KOORDINATOR}/name"
        raise FieldError(msg, place.path)
    return Membership(cast("str | None", named), said.fields, TIMED_OUT in said.values)
