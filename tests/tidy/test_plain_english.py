"""Checks the rules of docs/contributing/style.md that a program can check."""

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import prose, source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

MODULES_MAX = 15
"""Modules in one product folder, besides `__init__.py` and generated ones."""

CITING = {".md", ".py", ".toml", ".proto"}

# Written in two parts, so that this file does not cite ids that do not exist.
UNKNOWN_RULE = "REC" + "-999"


def faults(check: Callable[[ast.Module], list[str]]) -> str:
    """Return the faults that a check finds in all product modules, one a line."""
    modules = source_tree.product_modules()
    assert modules
    return "\n".join(f"{m}:{fault}" for m in modules for fault in check(source_tree.parse(m)))


def cited() -> list[tuple[str, str]]:
    """Return every citation of product, tests and documents: `path:line` and the cited id."""
    return [
        (f"{path}:{line}", name)
        for path in source_tree.files()
        if path.suffix in CITING
        for line, name in prose.citations((ROOT / path).read_text())
    ]


def anchors() -> list[str]:
    """Return the anchors of the protocol's pages and of the page of known bugs."""
    pages = [
        path
        for path in source_tree.markdown_files()
        if path.is_relative_to("docs/protocol") or path == Path("docs/known-bugs.md")
    ]
    return [anchor for page in pages for anchor in prose.anchors((ROOT / page).read_text())]


def test_no_docstring_is_a_fragment_without_subject() -> None:
    assert not (found := faults(prose.fragments)), f"say what it is or does:\n{found}"


def test_no_string_holds_a_banned_wording() -> None:
    assert not (found := faults(prose.banned_wordings)), f"\n{found}"


def test_no_two_public_classes_share_a_name() -> None:
    modules = [(module, source_tree.parse(module)) for module in source_tree.product_modules()]
    assert not prose.shared_class_names(modules)


def test_unit_tests_are_named_after_what_they_test() -> None:
    tests = [path for path in source_tree.files() if path.match("tests/unit/**/test_*.py")]
    product = set(source_tree.product_modules())
    assert tests
    misnamed = [str(path) for path in tests if not prose.is_named_after_a_module(path, product)]
    assert not misnamed, "name them test_<module>[_aspect].py"


def test_every_cited_id_has_an_anchor() -> None:
    known = set(anchors())
    places = cited()
    assert known and places
    unknown = [f"{where}: {name}" for where, name in places if name not in known]
    assert not unknown, "no such rule, bug or invariant:\n" + "\n".join(unknown)


def test_every_anchor_is_unique() -> None:
    assert not [anchor for anchor, count in Counter(anchors()).items() if count > 1]


def test_no_product_folder_holds_too_many_modules() -> None:
    modules = [path for path in source_tree.product_modules() if path.name != "__init__.py"]
    sizes = Counter(str(path.parent) for path in modules)
    assert not {folder: size for folder, size in sizes.items() if size > MODULES_MAX}


@pytest.mark.parametrize(
    "sample",
    [
        '"""Of one writer."""',
        'class A:\n    """Whom a storage tells."""',
        'def f() -> bool:\n    """Whether it ended."""',
        'async def f() -> None:\n    """\n    How it ended.\n    """',
        'x = 1\n"""What is counted."""',
        'class A:\n    x: int = 1\n    """For who reads it."""',
        'class A:\n    def __init__(self):\n        self.x = 1\n        """Who waits."""',
    ],
)
def test_fragments_are_found_in_every_kind_of_docstring(sample: str) -> None:
    assert prose.fragments(ast.parse(sample))


@pytest.mark.parametrize(
    "sample",
    [
        '"""Office hours."""',
        'def f() -> bool:\n    """Return whether it ended."""',
        'def f() -> None:\n    """Close it. What is open is closed first."""',
        "x = 'What is this?'",
    ],
)
def test_whole_sentences_pass(sample: str) -> None:
    assert not prose.fragments(ast.parse(sample))


def test_banned_wordings_are_found_across_lines_and_in_formatted_strings() -> None:
    for sample in ('"""It lasts for\n    who waits."""', "x = f'{name} is no setting'"):
        assert prose.banned_wordings(ast.parse(sample))
    for sample in ("'it is no longer there'", "'there is no stream'", "'for whoever waits'"):
        assert not prose.banned_wordings(ast.parse(sample))


def test_names_of_unit_tests_are_compared_with_the_tree() -> None:
    product = {Path("core/wire/v2.py"), Path("core/wire/__init__.py"), Path("core/__init__.py")}
    for name in ("core/wire/test_v2.py", "core/wire/test_v2_limits.py", "core/wire/test_wire.py"):
        assert prose.is_named_after_a_module(Path("tests/unit") / name, product), name
    assert prose.is_named_after_a_module(Path("tests/unit/core/test_wire_garbage.py"), product)
    for name in ("core/wire/test_v3.py", "core/test_v2.py", "core/wire/test_garbage.py"):
        assert not prose.is_named_after_a_module(Path("tests/unit") / name, product), name


def test_citations_are_found_with_their_lines() -> None:
    text = (
        f"(rule {UNKNOWN_RULE})\n(bug"
        + "s B98, B99) or ("
        + "B97)\ninvariant"
        + "s L98 and R99\nB96"
    )
    assert prose.citations(text) == [
        (1, UNKNOWN_RULE), (2, "B98"), (2, "B99"), (2, "B97"), (3, "L98"), (3, "R99"),
    ]  # fmt: skip
