"""Facts about the interfaces of programs: HTTP, metrics, commands, feeds, Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from docs.generate import PARTS
from muster.cli._main import muster
from muster.feeds import OPS
from muster.feeds._annotations import MEMBER_KEYS, OBJECT_KEYS
from muster.feeds._items import APP_FIELDS, GANG_FIELDS, QUEUE_FIELDS as QUEUE_EXPECTED
from muster.feeds._kubernetes import APPLICATION_LABEL, QUEUE_LABEL, VOLCANO_QUEUE_LABEL
from muster.feeds._manifests import FORMS
from muster.kubernetes._lease import TERM, URL
from muster.service.endpoints.openapi import document_of
from muster.service.metrics.scrape import METRICS
from muster.service.serve import ENDPOINTS
from muster.service.yunikorn.app import PATHS
from muster_core.config.loader import FILE_FIELDS, NODE_SORT_FIELDS, PARTITION_FIELDS
from muster_core.config.properties import PROPERTIES
from muster_core.config.queues import QUEUE_FIELDS, RESOURCES_FIELDS, TEMPLATE_FIELDS
from muster_core.values.events import ASK_ANNOTATION, USER_INFO
from tests.compatibility.facts import ALTERNATIVELY, Facts, Surface

Json = dict[str, Any]

JSON: Final = "application/json"
CONFIGURATION: Final = {
    "configuration": FILE_FIELDS,
    "configuration: partitions": PARTITION_FIELDS,
    "configuration: nodesortpolicy": NODE_SORT_FIELDS,
    "configuration: queues": QUEUE_FIELDS,
    "configuration: resources": RESOURCES_FIELDS,
    "configuration: childtemplate": TEMPLATE_FIELDS,
}


def http() -> Surface:
    """Return the facts about paths: of the OpenAPI document, and of YuniKorn's end points."""
    found = of_openapi(document_of(ENDPOINTS, secured=True))
    facts = found["YuniKorn"] = Facts()
    for path, (method, _) in PATHS.items():
        facts.promise(f"{method} {path}")
    return found


def of_openapi(document: Json) -> Surface:
    """Return the facts about an OpenAPI document.

    What a client sends is promised type by type, and what it has to send is a demand. What it gets has
    a value with all that it may be, absent and null included.
    """
    found = dict[str, Facts]()
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            facts = found[f"{method.upper()} {path}"] = Facts()
            facts.promise("it", operation["x-muster-role"])
            add_request(facts, operation)
            add_answers(facts, operation["responses"], schemas)
    for name, schema in schemas.items():
        add_answer(found.setdefault(name, Facts()), "", schema, schemas)
    return found


def add_request(facts: Facts, operation: Json) -> None:
    """Add facts about the parameters and the body of an operation."""
    for one in operation.get("parameters", ()):
        key = f"{one['in']} {one['name']}"
        facts.promise(key)
        add_sent(facts, key, one["schema"])
        if one["required"]:
            facts.demand("it", key)
    body = operation.get("requestBody", {"content": {}, "required": False})
    for media, content in body["content"].items():
        facts.promise(f"body {media}")
        add_sent(facts, f"body {media}", content["schema"])
    if body["required"]:
        facts.demand("it", "a body")


def add_answers(facts: Facts, answers: Mapping[str, Json], schemas: Mapping[str, Json]) -> None:
    """Add facts about the statuses of an operation, and the answers that are no refusals."""
    for status, answer in answers.items():
        facts.promise(status)
        for media, content in answer.get("content", {}).items() if int(status) < 400 else ():
            if media == JSON:
                add_answer(facts, f"{status} ", content["schema"], schemas)
            else:
                facts.promise(f"{status} {media}")


def add_sent(facts: Facts, key: str, schema: Json) -> None:
    """Add facts about what a client sends."""
    for one in alternatives(schema):
        for form in types(one):
            facts.promise(f"{key} ({form})")
        for value in one.get("enum", ()):
            facts.promise(f"{key} ({value})")
        for name, below in one.get("properties", {}).items():
            facts.promise(f"{key}.{name}")
            add_sent(facts, f"{key}.{name}", below)
            if name in one.get("required", ()):
                facts.demand(key, name)
        if "items" in one:
            add_sent(facts, f"{key}[]", one["items"])


def add_answer(
    facts: Facts, key: str, schema: Json, schemas: Mapping[str, Json], *absent: str
) -> None:
    """Add facts about what a client gets."""
    variants = [
        schemas[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        for one in alternatives(schema)
    ]
    fields = dict.fromkeys(name for one in variants for name in one.get("properties", ()))
    items = [one["items"] for one in variants if "items" in one]
    # The form of its items describes an array, and that of its fields an object.
    below = {"array" if items else "", "object" if fields else ""}
    forms = {*absent, *(form for one in variants for form in types(one))} - below
    if forms or below == {""}:
        facts.promise(key, ALTERNATIVELY.join(sorted(forms)))
    for value in {value: None for one in variants for value in one.get("enum", ())}:
        if value is not None:
            facts.promise(f"{key} ({value})")
    for name in fields:
        within = [one["properties"][name] for one in variants if name in one.get("properties", ())]
        is_there = all(
            name in one.get("required", ()) for one in variants if types(one) != ["null"]
        )
        sometimes = () if is_there else ("absent",)
        add_answer(facts, f"{key}.{name}", {"anyOf": within}, schemas, *sometimes)
    values = [one["additionalProperties"] for one in variants if one.get("additionalProperties")]
    for one, within in ((f"{key}.*", values), (f"{key}[]", items)):
        if within:
            add_answer(facts, one, {"anyOf": within}, schemas)


def alternatives(schema: Json) -> Iterator[Json]:
    """Yield the schemas of which one holds."""
    several = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for one in several:
        yield from alternatives(one)
    if not several:
        yield schema


def types(schema: Json) -> list[str]:
    """Return the types that a schema names."""
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else named


def metrics() -> Surface:
    """Return the facts about metrics: their types and labels."""
    facts = Facts()
    for one in METRICS:
        facts.promise(one.name, f"{one.kind} {', '.join(one.labels.split())}")
    return {"metrics": facts}


def commands() -> Surface:
    """Return the facts about commands, their options and arguments."""
    found = dict[str, Facts]()
    add_command(found, "muster", muster)
    return found


def add_command(
    found: dict[str, Facts], name: str, command: click.Command, above: click.Context | None = None
) -> None:
    """Add facts about a command and those below it."""
    facts = found[name] = Facts({"it": ""})
    settings: Json = dict(command.context_settings)
    context = click.Context(command, above, name, **settings)
    place = 0
    for one in command.get_params(context):
        if not isinstance(one, click.Option):
            add_parameter(facts, one, [f"<{place}>"])
            place += 1
        elif not one.hidden:
            add_parameter(facts, one, [*one.opts, *one.secondary_opts])
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            under = command.get_command(context, below)
            assert under is not None
            add_command(found, f"{name} {below}", under, context)


def add_parameter(facts: Facts, one: click.Parameter, words: Sequence[str]) -> None:
    """Add facts about an option or an argument, by each of its names."""
    is_flag = isinstance(one, click.Option) and (one.is_flag or one.count)
    many = "several" if one.multiple or one.nargs != 1 else "one"
    if type(one.default) in {int, float, str}:
        many += f", else {one.default}"
    for word in words:
        facts.promise(word, "flag" if is_flag else many)
        for choice in one.type.choices if isinstance(one.type, click.Choice) else ():
            facts.promise(f"{word} {choice}")
    for variable in [one.envvar] if isinstance(one.envvar, str) else one.envvar or ():
        facts.promise(f"{words[-1]} ${variable}")
    if one.required:
        facts.demand("it", words[-1])


def formats() -> Surface:
    """Return the facts about feeds and configurations: operations, fields, properties, annotations."""
    found = dict[str, Facts]()
    for name, fields in {
        **{name: [*op.fields.values()] for name, op in OPS.items()},
        **{f"in {name}": [*fields] for name, fields in PARTS.items()},
        "expect gangs": GANG_FIELDS,
        "expect queues": QUEUE_EXPECTED,
        "expect apps": APP_FIELDS,
    }.items():
        facts = found[name] = Facts({"it": ""})
        for field in fields:
            facts.promise(field.name)
            if field.required:
                facts.demand("it", field.name)
    for name, known in {
        **CONFIGURATION,
        "objects": FORMS,
        "annotations": (*MEMBER_KEYS, *OBJECT_KEYS, ASK_ANNOTATION, USER_INFO, URL, TERM),
        "labels": (APPLICATION_LABEL, QUEUE_LABEL, VOLCANO_QUEUE_LABEL),
    }.items():
        found[name] = Facts(dict.fromkeys(known, ""))
    facts = found["properties"] = Facts()
    for name, one in PROPERTIES.items():
        facts.promise(name, one.text(one.default))
    return found
