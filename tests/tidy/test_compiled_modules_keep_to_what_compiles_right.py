"""What pyproject.toml lists to be compiled avoids what the compiler gets wrong or cannot do.

mypyc 2 re-raises a handled exception of the surrounding code when an ``await`` stands in a
``finally`` that was reached without one. So in a compiled module nothing waits inside ``try`` or
``with``; such coroutines live in modules beside it, which stay as they are.
"""

import ast
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

MODULES = [Path(name) for name in source_tree.pyproject()["tool"]["rhumbline"]["compiled"]]
WAITS = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)


def test_the_list_is_sorted_and_names_modules_of_the_hot_path() -> None:
    assert sorted(set(MODULES)) == MODULES
    assert all((ROOT / path).is_file() for path in MODULES)
    assert {path.parts[0] for path in MODULES} == {"core", "proxies"}


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_nothing_waits_inside_try_or_with(path: Path) -> None:
    guarded = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
    for node in ast.walk(source_tree.parse(path)):
        if isinstance(node, guarded):
            waits = [inner.lineno for inner in ast.walk(node) if isinstance(inner, WAITS)]
            assert not waits, f"{path}: line {waits[0]} waits inside a block of line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_classes_inherit_from_nothing_that_stays_interpreted(path: Path) -> None:
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
