"""Labels and annotations of Kubernetes objects: the user of an application, and its gangs.

OBJECT-16: the keys of Koordinator and of the community define gangs. On a member, they name its
gang and say what the gang needs; some of them also occur on a PodGroup. Other keys say nothing about
a gang. Keys with the same meaning must have the same value. The annotation that says whose
application it is has YuniKorn's form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast, final

import attrs

from muster.feeds._fields import (
    WRITTEN_GROUPS,
    WRITTEN_MEMBERS,
    WRITTEN_MODE,
    WRITTEN_NAME,
    WRITTEN_TRUTH,
    WRITTEN_WAIT,
    Values,
    attributes_of,
    full_name,
)
from muster.feeds._kinds import NAME, WORD, FieldError, Kind, as_written, display_value, refused
from muster.feeds._raw import Raw
from muster_core.config.tree import is_unicode
from muster_core.events import AddAsk
from muster_core.gangs import NO_FIELDS, GangFields
from muster_core.values.events import USER_INFO
from muster_core.values.names import DEFAULT_NAMESPACE

_RIGHT: Final = """is not JSON of the form {"user": "sue", "groups": ["developers"]}"""


@final
@attrs.frozen
class UserInfo:
    """A user and the groups of the user; without a user, the nameless one."""

    user: str | None = None
    groups: tuple[str, ...] = ()


ANNOTATIONS: Final = "metadata.annotations"


# OBJECT-28
def user_info(annotations: ParsedAnnotations) -> UserInfo:
    """Return the user that the annotations of a Pod or a PodGroup name.

    Raises:
        FieldError: If it is malformed.
    """
    written = annotations.texts.get(USER_INFO)
    if written is None:
        return UserInfo()
    try:
        found: object = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    error = refused(written, _RIGHT).inside(f"{ANNOTATIONS}.{USER_INFO}")
    if not isinstance(found, dict):
        raise error
    info = cast("dict[str, object]", found)
    # Programs in Go write a missing value as null or as an empty text.
    user, groups = info.get("user"), info.get("groups")
    user = None if user == "" else user
    if not (user is None or _is_name(user)) or not isinstance(groups, list | None):
        raise error
    names = cast("list[object] | None", groups) or []
    if not all(_is_name(name) for name in names):
        raise error
    return UserInfo(cast("str | None", user), tuple(cast("list[str]", names)))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and is_unicode(value)


T = TypeVar("T")

KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
COMMUNITY: Final = "pod-group.scheduling.sigs.k8s.io"


@final
@attrs.frozen
class AnnotationKey:
    """The meaning of one key about a gang.

    Attributes:
        says: What its value sets: an attribute of :class:`GangFields`, :data:`NAMES_IT` or
            :data:`TIMED_OUT`.
        kind: The values that it accepts; a value that parses to None sets nothing.
    """

    says: str
    kind: Kind[object]


NAMES_IT: Final = "gang"
"""``AnnotationKey.says`` of a key that names the gang."""

TIMED_OUT: Final = "timed_out"
"""``AnnotationKey.says`` of a key that marks the gang as timed out."""


def _key(says: str, kind: Kind[T]) -> AnnotationKey:
    return AnnotationKey(says, kind.general)


_TOTAL: Final = _key("total", WRITTEN_MEMBERS)
_MODE: Final = _key("mode", WRITTEN_MODE)
_GROUPS: Final = _key("groups", WRITTEN_GROUPS)
_NAME: Final = _key(NAMES_IT, WRITTEN_NAME)
_MIN_MEMBER: Final = _key("min_member", WRITTEN_MEMBERS)

# OBJECT-9
OBJECT_KEYS: Final[Mapping[str, AnnotationKey]] = {
    f"{KOORDINATOR}/total-number": _TOTAL,
    f"{KOORDINATOR}/mode": _MODE,
    f"{KOORDINATOR}/groups": _GROUPS,
    f"{KOORDINATOR}/gang-groups": _GROUPS,
}
"""The known keys in annotations of a PodGroup."""

# OBJECT-16
MEMBER_KEYS: Final[Mapping[str, AnnotationKey]] = {
    f"{KOORDINATOR}/name": _NAME,
    COMMUNITY: _NAME,
    f"{COMMUNITY}/name": _NAME,
    "scheduling.x-k8s.io/pod-group": _NAME,
    "scheduling.k8s.io/group-name": _NAME,
    **OBJECT_KEYS,
    f"{KOORDINATOR}/min-available": _MIN_MEMBER,
    f"{COMMUNITY}/min-available": _MIN_MEMBER,
    f"{KOORDINATOR}/waiting-time": _key("wait_us", WRITTEN_WAIT),
    # OBJECT-17
    f"{KOORDINATOR}/timeout": _key(TIMED_OUT, WRITTEN_TRUTH),
}
"""The known keys in labels and annotations of a member."""


# -- maps of annotations --------------------------------------------------------------------


@final
@attrs.frozen
class GangAnnotation:
    """One label or annotation about a gang.

    Attributes:
        key: Its key.
        says: What it sets; see :class:`AnnotationKey`.
        value: The typed value.
        written: The value as written, for messages.
    """

    key: str
    says: str
    value: object
    written: Raw = attrs.field(eq=False)


@final
@attrs.frozen
class ParsedAnnotations:
    """Labels or annotations.

    Attributes:
        texts: Those that are not about a gang.
        of_gang: Those about a gang, in the order of the map.
    """

    texts: Mapping[str, str] = attrs.field(factory=dict[str, str])
    of_gang: tuple[GangAnnotation, ...] = ()


def annotations_kind(keys: Mapping[str, AnnotationKey]) -> Kind[ParsedAnnotations]:
    """Return the kind of a map of labels or annotations in which ``keys`` are about a gang."""

    def read(key: str, part: Raw, texts: dict[str, str], of_gang: list[GangAnnotation]) -> None:
        NAME.parse(key)
        known = keys.get(key)
        if known is None:
            texts[key] = WORD.parse(part)
        elif (value := known.kind.parse(part)) is not None:
            of_gang.append(GangAnnotation(key, known.says, value, part))

    def parse(value: Raw) -> ParsedAnnotations:
        if not isinstance(value, dict):
            raise refused(value, "is not a map")
        made: tuple[dict[str, str], list[GangAnnotation]] = {}, []
        for key, part in value.items():
            try:
                read(str(key), part, *made)
            except FieldError as error:
                raise error.inside(f".{key}") from None
        return ParsedAnnotations(made[0], tuple(made[1]))

    return Kind(
        "map of texts",
        parse,
        lambda value: _marks_normal(keys, value),
        lambda marks: {**marks.texts, **{one.key: one.written for one in marks.of_gang}},
    )


def gang_annotations(keys: Mapping[str, AnnotationKey], values: Values) -> ParsedAnnotations:
    """Return annotations that set these fields of a gang, each with the first key for it."""
    first = {known.says: key for key, known in reversed([*keys.items()])}
    texts = {
        key: str(known.kind.write(values[known.says]))
        for key, known in keys.items()
        if known.says in values and first[known.says] == key
    }
    return ParsedAnnotations(texts)


def says_of_member(ask: AddAsk) -> Values:
    """Return the fields of the gang of a member that its annotations set, except for the name."""
    says = attributes_of(ask.says)
    return {**says, TIMED_OUT: True} if ask.timed_out else says


def _marks_normal(keys: Mapping[str, AnnotationKey], value: Raw) -> Raw:
    if not isinstance(value, dict):
        return as_written(value)
    return {
        str(key): (keys[key].kind if key in keys else WORD).normal(part)
        for key, part in value.items()
    }


MEMBER_ANNOTATIONS: Final = annotations_kind(MEMBER_KEYS)
OBJECT_ANNOTATIONS: Final = annotations_kind(OBJECT_KEYS)


# -- one gang from several maps --------------------------------------------------------------


@final
@attrs.frozen
class AnnotationSource:
    """The path of a value, and the value as written."""

    path: str
    written: Raw

    def differs(self, other: AnnotationSource) -> FieldError:
        """Return the error that this value differs from the one at another place."""
        other_text = f"{display_value(other.written)} of {other.path}"
        return FieldError(f"{display_value(self.written)} differs from {other_text}", self.path)


@final
@attrs.frozen
class GangSettings:
    """All that labels, annotations and fields set for one gang.

    Attributes:
        values: The typed values, by what they set; see :class:`AnnotationKey`.
        places: The place of each value.
    """

    values: Mapping[str, object]
    places: Mapping[str, AnnotationSource]

    @property
    def fields(self) -> GangFields:
        """Return the fields that define the gang.

        Raises:
            FieldError: If its total is below its minimum of members.
        """
        named = (attribute.name for attribute in attrs.fields(GangFields))
        make = cast("Callable[..., GangFields]", GangFields)
        fields = make(**{name: self.values.get(name) for name in named})
        if fields.lacks_total():
            total_at, least_at = self.places["total"], self.places["min_member"]
            msg = (
                f"{display_value(total_at.written)} is less than {display_value(least_at.written)}"
            )
            raise FieldError(f"{msg} of {least_at.path}", total_at.path)
        return fields


# OBJECT-16
def gang_settings(
    found: Mapping[str, ParsedAnnotations], namespace: str = DEFAULT_NAMESPACE
) -> GangSettings:
    """Combine the labels and annotations about one gang.

    Args:
        found: Labels or annotations, by the path of their field.
        namespace: The namespace of a gang whose name has none.

    Raises:
        FieldError: If two values differ, or the name of the gang is invalid.
    """
    values: dict[str, object] = {}
    places: dict[str, AnnotationSource] = {}
    for path, annotation in ((path, part) for path, some in found.items() for part in some.of_gang):
        place = AnnotationSource(f"{path}.{annotation.key}", annotation.written)
        value = annotation.value
        if annotation.says == NAMES_IT:
            value = _named(annotation.written, namespace, place)
        if values.setdefault(annotation.says, value) != value:
            raise place.differs(places[annotation.says])
        places.setdefault(annotation.says, place)
    return GangSettings(values, places)


def _named(written: Raw, namespace: str, place: AnnotationSource) -> str:
    try:
        return full_name(written, namespace)
    except FieldError as error:
        raise error.inside(place.path) from None


@final
@attrs.frozen
class Membership:
    """The gang of an ask, and the fields that it sets; the attributes have their names in the event."""

    gang: str | None = None
    says: GangFields = NO_FIELDS
    timed_out: bool = False


def membership(settings: GangSettings, gang: str | None = None) -> Membership:
    """Return the gang of an ask, and the fields that annotations set.

    Args:
        settings: The settings from annotations.
        gang: The gang that a field of the event names, or None.

    Raises:
        FieldError: If no gang is named, or the annotations name another one than ``gang``.
    """
    named = settings.values.get(NAMES_IT, gang)
    if gang is not None and named != gang:
        raise AnnotationSource("gang", gang).differs(settings.places[NAMES_IT])
    if named is None and settings.places:
        place = next(iter(settings.places.values()))
        msg = f"{display_value(place.written)} is said of a gang, but none is named: add {KOORDINATOR}/name"
        raise FieldError(msg, place.path)
    return Membership(cast("str | None", named), settings.fields, TIMED_OUT in settings.values)
