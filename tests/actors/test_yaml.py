"""The tokens of YAML are the same whether PyYAML has its parser in C or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

from muster._yaml import read_tokens

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
