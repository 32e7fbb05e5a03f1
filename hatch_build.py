"""Compiles the core: for a wheel, where a C compiler is, or with ``python hatch_build.py`` in place.

The modules with a ``.pxd`` file beside them are compiled. That file declares which classes become
extension types, and the types of their attributes; the code is that of the ``.py`` file.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from typing_extensions import override

CORE: Final = Path(__file__).parent / "core"
DIRECTIVES: Final = {
    "binding": True,  # functions with all that those of Python have
    "language_level": 3,
    "nonecheck": True,  # an attribute of None is an AttributeError as in Python, not a memory fault
}
# An error: Cython forgets the object of a method of another module's class that is not called.
BOUND: Final = "-Werror=incompatible-pointer-types"
# Small, but by -Os only what runs seldom: with that it takes 10 to 20 % longer.
SMALL: Final = ("-g0", "-fno-asynchronous-unwind-tables", "-fvisibility=hidden")
# Less code between modules and before loops: a wheel for Linux is 2 to 4 % smaller.
SMALLER: Final = ("-fno-plt", "-fno-align-functions", "-fno-align-jumps", "-fno-align-loops")
IS_LINUX: Final = sys.platform == "linux"
OPTIONS: Final = [] if os.name == "nt" else ["-O2", *SMALL, *(SMALLER if IS_LINUX else ()), BOUND]
LINKED: Final = ["-Wl,-s"] if IS_LINUX else []
# What runs once for each event or timer, and not for each node or ask that a round looks at.
SELDOM: Final = ("muster_core.view.state.timers", "muster_core.view.state.intake")
DECLARED: Final = re.compile(r"^cdef class (\w+)", re.MULTILINE)
IMPORTED: Final = re.compile(r"^from \S+ cimport (.+)$", re.MULTILINE)
FOR_CHECKERS: Final = {"abstractmethod", "final", "override"}

Span = tuple[int, int, int, int, str]
"""The lines and columns at which a part of a module begins and ends, and what replaces it."""


@final
class CompiledCore(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    _made: TemporaryDirectory[str] | None = None

    @override
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the core, unless it is to be edited or MUSTER_PURE is set."""
        if version == "editable" or os.environ.get("MUSTER_PURE"):
            return
        self._made = TemporaryDirectory()
        folder = Path(self._made.name)
        try:
            compile_core(folder)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Muster runs without it, too
            self.app.display_warning(f"Muster is not compiled, and runs as plain Python: {error}")
            return
        made = (path for path in folder.rglob("*") if path.is_file())
        build_data["force_include"].update({str(one): str(one.relative_to(folder)) for one in made})
        build_data.update(infer_tag=True, pure_python=False)

    @override
    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files that are in the wheel now."""
        if self._made is not None:
            self._made.cleanup()


def compile_core(into: Path) -> None:
    """Compile all declared modules, in packages below a folder.

    Raises:
        Exception: Of any kind, if Cython, setuptools or the C compiler is missing or fails.
    """
    # Both are needed to compile, not to build, and have no types.
    tools, cython = (import_module(name) for name in ("setuptools", "Cython.Build"))
    declarations = {path: path.read_text("utf-8") for path in sorted(CORE.rglob("*.pxd"))}
    classes = {name for text in declarations.values() for name in DECLARED.findall(text)}
    with TemporaryDirectory() as folder, chdir(folder):
        _build(
            [tools.Extension("probe", [_written("probe.c", "int PyInit_probe(void) {return 0;}")])],
            ".",
        )
        shutil.copytree(CORE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so"))
        modules: list[Any] = []
        for path, text in declarations.items():
            source = path.relative_to(CORE).with_suffix(".py")
            prepared = prepare(source.read_text("utf-8"), classes, _imported(text))
            name = ".".join(source.with_suffix("").parts)
            small = ["-Os"] if IS_LINUX and name in SELDOM else []
            options = {"extra_compile_args": [*OPTIONS, *small], "extra_link_args": LINKED}
            modules.append(tools.Extension(name, [_written(str(source), prepared)], **options))
        cores = os.cpu_count() or 1
        translated = cython.cythonize(
            modules, compiler_directives=DIRECTIVES, nthreads=cores, quiet=True
        )
        _build(translated, str(into), cores)


def _imported(declarations: str) -> set[str]:
    return set(chain.from_iterable(names.split(", ") for names in IMPORTED.findall(declarations)))


def _written(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def _build(modules: list[Any], into: str, cores: int = 1) -> None:
    command = (
        import_module("setuptools")
        .Distribution({"name": "core", "ext_modules": modules})
        .get_command_obj("build_ext")
    )
    command.build_lib, command.build_temp, command.parallel = into, "objects", cores
    command.ensure_finalized()
    command.run()


def prepare(text: str, classes: set[str], imported: set[str]) -> str:
    """Return a module rewritten for Cython with the same behaviour; each line keeps its number.

    Decorators and bases that only type checkers need are left out, and ``__slots__``. To Cython, an
    annotation is a type of C, so that a ``float`` is not an int and a ``str`` no subclass. So only
    annotations with declared classes are kept.

    Args:
        text: The module.
        classes: All declared classes.
        imported: Those that its declarations import.
    """
    tree, lines = ast.parse(text), text.encode().splitlines(keepends=True)
    for first, column, last, end, new in sorted(_replaced(tree, classes, imported), reverse=True):
        rest = lines[last][end:]
        lines[first] = lines[first][:column] + new.encode() + b"\\\n" * (last - first) + rest
        lines[first + 1 : last + 1] = [b""] * (last - first)
    return b"".join(lines).decode()


def _replaced(tree: ast.Module, classes: set[str], imported: set[str]) -> Iterator[Span]:
    bounds = dict(_bounds(tree))
    python = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name not in classes]
    fields = {field for one in python for field in one.body}  # attrs and NamedTuple read them.
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module, names=names):
                kept = [ast.unparse(one) for one in names if one.name not in imported]
                if len(kept) < len(names):
                    yield _span(node, f"from {module} import {', '.join(kept)}" if kept else "pass")
            case ast.ClassDef(name=name) if name in classes:
                yield from _simplified(node)
            case ast.FunctionDef(returns=ast.expr() as returns):
                first, column, last, end, _ = _span(returns, "")
                yield first, column - len(" -> "), last, end, ""
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                _, _, last, end, new = _span(annotation, _type(annotation, classes, bounds))
                yield node.lineno - 1, node.col_offset, last, end, name + new
            case ast.AnnAssign(target=target, annotation=annotation) if node not in fields:
                first, column, last, end, _ = _span(annotation, "")
                new = _type(annotation, classes, bounds)
                if node.value is None and not new:
                    yield _span(node, "pass")
                else:
                    yield first, target.end_col_offset or 0, last, end, new
            case _:
                pass


def _simplified(declared: ast.ClassDef) -> Iterator[Span]:
    for base in declared.bases:
        if ast.unparse(base).split("[")[0] in {"ABC", "Generic"}:
            yield _span(base, "")
    functions = [one for one in declared.body if isinstance(one, ast.FunctionDef)]
    lists = [declared.decorator_list, *(one.decorator_list for one in functions)]
    for decorator in chain.from_iterable(lists):
        if ast.unparse(decorator) in FOR_CHECKERS:
            first, column, last, end, _ = _span(decorator, "")
            yield first, column - len("@"), last, end, ""
    for one in declared.body:
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__slots__":
            yield _span(one, "pass")


def _type(annotation: ast.expr, classes: set[str], bounds: Mapping[str, str]) -> str:
    name, _, option = ast.unparse(annotation).partition(" | ")
    name = bounds.get(name, name.split("[")[0])
    if name not in classes or option not in {"", "None"}:
        return ""
    return f": {name} | {option}" if option else f": {name}"


def _bounds(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the type variables of a module, with their bounds."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(name)],
                value=ast.Call(func=ast.Name("TypeVar"), keywords=[ast.keyword("bound", bound)]),
            ):
                yield name, ast.unparse(bound)
            case _:
                pass


def _span(node: ast.expr | ast.stmt, new: str) -> Span:
    last, end = node.end_lineno, node.end_col_offset
    assert last is not None
    assert end is not None
    return node.lineno - 1, node.col_offset, last - 1, end, new


def main() -> None:
    """Put the compiled modules beside their sources, if all could be compiled."""
    with TemporaryDirectory() as folder:
        compile_core(Path(folder))
        shutil.copytree(folder, CORE, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
