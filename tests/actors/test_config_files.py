"""Configuration files: the rules about form have files here, each of which cites its rule; tokens
are the same in both parsers of YAML.

A file in ``tests/configs/bad`` says at its head what is refused (``# refused: LINE PATH
message``, ``-`` for no path), one in ``tests/configs/good`` which warnings there are.
"""

from __future__ import annotations

import codecs
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Final

import attrs
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from muster._yaml import read_tokens
from muster.config_files import (
    MAX_FILE_BYTES,
    parse_configuration,
    parse_document,
    read_configuration,
)
from muster_core.config.model import Configuration, Limits, QueueConfig
from muster_core.config.tree import LocatedList, LocatedMap, line_of
from muster_core.errors import ConfigError
from muster_core.resources import Resources

CONFIGS = Path(__file__).parent.parent / "configs"
GOOD = sorted((CONFIGS / "good").glob("*.yaml"))
BAD = sorted((CONFIGS / "bad").glob("*.yaml"))
SOURCES = [path.read_text(encoding="utf-8") for path in (*GOOD, *BAD)]


def stem(path: Path) -> str:
    return path.stem


def header(path: Path, label: str) -> list[str]:
    """Return what the head of a file says after ``# label:``."""
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^# {label}: (.*)$", text, flags=re.MULTILINE)


def load(text: str | bytes) -> Configuration:
    return parse_configuration(text, file="f.yaml")


def queues(configuration: Configuration) -> dict[str, QueueConfig]:
    """Return every queue of a configuration by its path."""
    found = [configuration.root]
    for queue in found:
        found.extend(queue.children)
    return {queue.path: queue for queue in found}


def test_there_are_enough_files() -> None:
    assert len(GOOD) + len(BAD) > 100


@pytest.mark.parametrize("path", GOOD, ids=stem)
def test_good_files_load_with_their_warnings(path: Path) -> None:
    assert list(read_configuration(path).warnings) == header(path, "warnings")


@pytest.mark.parametrize("path", BAD, ids=stem)
def test_bad_files_are_refused_with_line_and_path(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_configuration(path)

    problems = caught.value.problems
    found = [f"{problem.line} {problem.path or '-'} {problem.message}" for problem in problems]
    assert found == header(path, "refused")
    assert {problem.file for problem in problems} == {str(path)}


@pytest.mark.parametrize("path", [*GOOD, *BAD], ids=stem)
def test_every_file_cites_the_rule_that_it_is_about(path: Path) -> None:
    [shown] = header(path, "(?:CONFIG|LIMIT|PLACEMENT|QUANTITY|QUEUE)-[0-9]+")

    assert shown


def in_a_config_map(text: str) -> str:
    """Return a ConfigMap in which a configuration begins on the fourth line."""
    indented = "".join(f"    {line}" for line in text.splitlines(keepends=True))
    return f"kind: ConfigMap\ndata:\n  queues.yaml: |2\n{indented}"


#: CONFIG-6 is about a whole file, and the others are no texts that a block can hold as they are.
NOT_IN_A_BLOCK = ("config_map", "yaml_two_configurations", "nothing")


def in_blocks(paths: list[Path]) -> list[Path]:
    return [path for path in paths if not path.stem.startswith(NOT_IN_A_BLOCK)]


@pytest.mark.parametrize("path", in_blocks(GOOD), ids=stem)
def test_a_config_map_is_the_configuration_in_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert load(in_a_config_map(text)) == load(text)


@pytest.mark.parametrize("path", in_blocks(BAD), ids=stem)
def test_problems_in_a_config_map_have_the_lines_of_the_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    with pytest.raises(ConfigError) as bare:
        load(text)
    with pytest.raises(ConfigError) as wrapped:
        load(in_a_config_map(text))

    moved = [
        attrs.evolve(problem, line=None if problem.line is None else problem.line + 3)
        for problem in bare.value.problems
    ]
    lines = re.compile(r"(?<=line )\d+")
    assert [attrs.evolve(one, message=lines.sub("n", one.message)) for one in moved] == [
        attrs.evolve(one, message=lines.sub("n", one.message)) for one in wrapped.value.problems
    ]


def test_a_folded_text_is_where_it_begins() -> None:
    text = "kind: ConfigMap\ndata:\n  queues.yaml: >\n    partitions:\n      - queues: 1\n"
    with pytest.raises(ConfigError) as caught:
        load(text)

    assert [problem.line for problem in caught.value.problems] == [3]


@pytest.mark.parametrize("text", ["", "# nothing", "[]", "a"])
def test_a_config_map_with_no_configuration_in_its_text(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(in_a_config_map(text))

    assert caught.value.problems[0].line in {3, 4}


def test_a_second_document_in_the_text_of_a_config_map() -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml:6: a second document starts here"):
        load(in_a_config_map("partitions: []\n---\npartitions: []\n"))


def test_a_packed_configuration_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unpack queues\.yaml\.gz"):
        load("{kind: ConfigMap, binaryData: {queues.yaml.gz: H4sIAAAA}}")


def test_many_objects_without_a_configuration() -> None:
    text = "---\n".join(f"kind: Pod\nmetadata: {{name: p{number}}}\n" for number in range(7))

    with pytest.raises(ConfigError, match=r"the Pod 'p4' and 2 more$"):
        load(text)


def test_a_list_of_lists() -> None:
    inner = "{kind: ConfigMap, data: {queues.yaml: 'partitions: [{name: default}]'}}"

    assert load(f"{{kind: List, items: [1, {{kind: List, items: [{inner}]}}]}}").root.children == ()


def test_the_lines_of_all_problems_in_one_order() -> None:
    text = "partitions:\n  - queues:\n    - {name: a b}\n    - {name: a, max: 1}\n"
    with pytest.raises(ConfigError) as caught:
        load(in_a_config_map(text))

    assert [problem.line for problem in caught.value.problems] == [6, 7]


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    with path.open("wb") as file:
        file.truncate(300_000_000)
    tracemalloc.start()
    with pytest.raises(ConfigError, match=f"at most {MAX_FILE_BYTES} bytes"):
        read_configuration(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 1.1 * MAX_FILE_BYTES


def test_quantities_as_they_stand() -> None:
    path = CONFIGS / "good" / "quantities.yaml"

    assert queues(read_configuration(path))["root.a"].max == Limits.of(
        {
            "vcore": 500,
            "memory": 3 * 2**29,
            "pods": 10,
            "a": 1000,
            "b": 1000,
            "c": 10**18,
            "d": 1000,
            "e": 2**63 - 1,
            "f": 0,
            "g": 2500,
            "h": 7 * 2**60,
            "nvidia.com/gpu": 8,
        }
    )


def test_names_are_the_text_that_stands_there() -> None:
    root = read_configuration(CONFIGS / "good" / "names_are_texts.yaml").root

    names = ["off", "010", "0x10", "1_000", "12:30", "null", "yes", "10"]
    assert [child.name for child in root.children] == names


def test_offsets_are_any_text() -> None:
    root = read_configuration(CONFIGS / "good" / "offset_is_any_text.yaml").root

    offsets = [5, 5, -5, 7, 0, 2147483647]
    assert [child.settings.offset for child in root.children] == offsets + [0] * 9


def test_merges_and_aliases() -> None:
    found = queues(read_configuration(CONFIGS / "good" / "anchors_and_merges.yaml"))

    assert attributes(found["root.blue"]) == attributes(found["root.red"])
    assert found["root.green"].guaranteed == Resources({"vcore": 2000})
    assert found["root.green"].max == found["root.red"].max
    most = {"vcore": 2000, "pods": 5, "memory": 2**30}
    assert found["root.both"].max == Limits.of(most)


def attributes(queue: QueueConfig) -> tuple[object, ...]:
    return queue.max_applications, queue.guaranteed, queue.max, queue.settings


def test_json_loads_as_yaml() -> None:
    configuration = read_configuration(CONFIGS / "good" / "json.yaml")

    queue = queues(configuration)["root.a"]
    assert (queue.is_parent, queue.max_applications) == (True, 5)
    assert not configuration.preemption_enabled


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("[off, 010, 1_000, 12:30, ~, '']", ["off", "010", "1_000", "12:30", "~", ""]),
        ("a: b # c", {"a": "b"}),
        ("a:\nb: |\n  x\n  y\n", {"a": "", "b": "x\ny\n"}),
        ("- &x {a: 1}\n- *x", [{"a": "1"}, {"a": "1"}]),
        ("{a: 1, <<: {a: 2, b: 3}}", {"a": "1", "b": "3"}),
        ("{<<: [{a: 1}, {a: 2, b: 3}], c: 4}", {"c": "4", "a": "1", "b": "3"}),
        ("{'<<': 1}", {"<<": "1"}),
        ("- &x 1\n- &x 2\n- *x", ["1", "2", "2"]),
        ("", ""),
        ("# nothing", ""),
        ("---\n...\n", ""),
    ],
)
def test_documents(text: str, document: object) -> None:
    assert parse_document(text) == document


def test_every_node_knows_its_line() -> None:
    document = parse_document("a:\n  - b\n  - c: d\n    e: 'f\n\n      g'\n")

    assert isinstance(document, LocatedMap)
    [(key, value)] = document.items()
    assert isinstance(value, LocatedList)
    inner = value[1]
    assert isinstance(inner, LocatedMap)
    assert [line_of(part) for part in (key, value, value[0], inner)] == [1, 2, 2, 3]
    assert [(line_of(name), line_of(text)) for name, text in inner.items()] == [(3, 3), (4, 4)]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (codecs.BOM_UTF8 + b"partitions: [{name: \xc3\xa4}]", "ä"),
        ("partitions: [{name: ä}]".encode("utf-16"), "ä"),
        (codecs.BOM_UTF16_BE + "partitions: [{name: ä}]".encode("utf-16-be"), "ä"),
        (codecs.BOM_UTF32_LE + "partitions: [{name: ä}]".encode("utf-32-le"), "ä"),
    ],
)
def test_encodings(data: bytes, name: str) -> None:
    assert load(data).partition == name


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: b\nc: \xff\n", "f.yaml:2: byte 0xff is not utf-8: invalid start byte"),
        (b"\xff\xfea", "f.yaml:1: byte 0x61 is not utf-16: truncated data"),
        (b"a:\n  b: \x01\n", "f.yaml:2: not YAML: the character U+0001 must not stand there"),
        (b"a: \x00", "f.yaml:1: not YAML: the character U+0000 must not stand there"),
        (
            b'a: "\\ud800"',
            "f.yaml:1: not YAML: while parsing a quoted scalar found invalid Unicode",
        ),
        (b'a: "\\UFFFFFFFF"', "f.yaml:1: not YAML: "),
        (b"%YAML 9.9\n--- a", "f.yaml:1: not YAML: found incompatible YAML document"),
        (b"a: *\xc3\xa4", "f.yaml:1: "),
        (b"[" * 100_000, "f.yaml:1: nested deeper than 200 levels"),
    ],
)
def test_what_is_not_yaml(data: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(data)

    assert str(caught.value).startswith(message)


def nested_by_aliases(levels: int) -> str:
    """Return a map in which aliases nest lists so deep."""
    above = "".join(f"x{number}: &a{number} [*a{number - 1}]\n" for number in range(2, levels))
    return f"x1: &a1 []\n{above}"


def test_what_aliases_nest_too_deep() -> None:
    parse_document(nested_by_aliases(200))

    with pytest.raises(ConfigError, match=r"^f\.yaml:200: nested deeper than 200 levels"):
        parse_document(nested_by_aliases(202), file="f.yaml")


def test_a_key_that_stands_twice_below_a_merge() -> None:
    text = "x: &x {name: a, name: b}\npartitions: [{<<: *x, queues: 1}]\n"
    with pytest.raises(ConfigError) as caught:
        load(text)

    assert [str(problem) for problem in caught.value.problems][:2] == [
        "f.yaml:1: x: unknown field 'x': known are partitions, checksum",
        "f.yaml:1: partitions[0].name: the name 'name' is used twice, first in line 1",
    ]


def test_a_partition_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text("partitions: [{name: a}, {name: b}]", encoding="utf-8")

    assert read_configuration(path, partition="b").partition == "b"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_configuration(tmp_path / "queues.yaml")


SNIPPETS = [
    *("*a", "&a ", "<<: ", "[", "]", "{", "}", "- ", ": ", "\n", "\t", "? ", "|\n", "!!x ", "'"),
    *('"', "~", "0x10", "-1", "\x00", "\ud800", "\ufeff", "\u2028", "%", "---\n", "ä", "# "),
    *("name: ", "queues: ", "root", "parent: ", "resources: ", "max: ", "properties: "),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draw a configuration file and damage it."""
    text = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        other = draw(st.sampled_from(SOURCES))
        what = draw(st.sampled_from([*SNIPPETS, other[start:end]]))
        text = text[:start] + what + text[end:]
    return text


@given(mutated())
@settings(max_examples=300)
def test_damaged_files_are_loaded_or_refused_and_nothing_else(text: str) -> None:
    for source in (text, text.encode("utf-8", "surrogatepass")):
        try:
            load(source)
        except ConfigError as error:
            for problem in error.problems:
                str(problem).encode()


@given(st.binary(max_size=200))
def test_any_bytes_are_loaded_or_refused_and_nothing_else(data: bytes) -> None:
    with pytest.raises(ConfigError):
        load(data)


@pytest.mark.parametrize("version", ["1.111", "1", "9999999999999999999.1", "x"])
def test_a_version_of_yaml_that_does_not_exist_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml"):
        parse_configuration(f"%YAML {version}\n---\npartitions: []\n", file="f.yaml")


TESTS: Final = Path(__file__).parents[1]
SOME: Final = [
    *sorted((TESTS / "feeds" / "config").rglob("*.yaml")),
    *sorted((TESTS / "configs" / "good").rglob("*.yaml")),
]
WITHOUT_C: Final = """
import sys, yaml
del yaml.CLoader
from muster._yaml import read_tokens
for name in sys.argv[1:]:
    print(list(read_tokens(open(name, encoding="utf-8").read())))
from muster.config_files import parse_configuration
from muster.feeds import FeedError, read_feed
from muster import ConfigError
for text in ('a: "\\\\ud800"', 'a:\\n  "\\\\U00110000"'):
    try:
        parse_configuration(text)
    except ConfigError as error:
        print(error)
"""


def test_the_parser_in_c_is_there() -> None:
    assert yaml.__with_libyaml__


def test_tokens_without_the_parser_in_c() -> None:
    assert len(SOME) > 20
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_C, *SOME],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=300,
    )

    *tokens, half, beyond = done.stdout.splitlines()
    assert tokens == [str(list(read_tokens(path.read_text("utf-8")))) for path in SOME]
    assert half == "1: half a surrogate pair cannot stand in a configuration"
    assert beyond == "1: not YAML: chr() arg not in range(0x110000)"
