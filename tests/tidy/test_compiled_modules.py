"""Checks that compiled modules avoid constructs that mypyc miscompiles or does not support.

mypyc 2 re-raises a handled exception of the surrounding code if an ``await`` is in a ``finally``
that was reached without an exception. A compiled module therefore never awaits inside ``try`` or
``with``; coroutines that must are in interpreted modules beside it.
"""

import ast
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

MODULES = [Path(name) for name in source_tree.pyproject()["tool"]["rhumbline"]["compiled"]]
WAITS = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)


def test_the_list_of_compiled_modules_is_sorted() -> None:
    assert sorted(set(MODULES)) == MODULES
    assert all((ROOT / path).is_file() for path in MODULES)
    assert {path.parts[0] for path in MODULES} == {"core", "proxies"}


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_no_await_inside_try_or_with(path: Path) -> None:
    guarded = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
    for node in ast.walk(source_tree.parse(path)):
        if isinstance(node, guarded):
            waits = [inner.lineno for inner in ast.walk(node) if isinstance(inner, WAITS)]
            assert not waits, (
                f"{path}:{waits[0]}: awaits inside the block that begins at line {node.lineno}"
            )


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_classes_inherit_only_from_compiled_classes(path: Path) -> None:
    known = {"Protocol", "NamedTuple", "IntEnum", "IntFlag", "Enum"}
    tree = source_tree.parse(path)
    local = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base) for base in node.bases}
            assert bases <= known | local, f"{path}: {node.name} inherits from {bases}"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_methods_have_plain_decorators_only(path: Path) -> None:
    plain = {"property", "classmethod", "staticmethod"}  # a cached_property would not be cached
    for node in ast.walk(source_tree.parse(path)):
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    names = {ast.unparse(decorator) for decorator in method.decorator_list}
                    assert names <= plain, f"{path}: {method.name} has {names - plain}"
