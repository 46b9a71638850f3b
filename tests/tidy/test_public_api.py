"""Checks that documents and examples use only public modules, and that those are documented."""

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import doc_blocks, source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

PUBLIC = (
    "rhumbline", "rhumbline.errors", "rhumbline.plugins", "rhumbline.policies",
    "rhumbline.settings", "rhumbline.spark", "rhumbline.stores", "rhumbline.sync",
    "rhumbline.telemetry", "rhumbline.testing", "rhumbline.topics", "rhumbline.typed",
)  # fmt: skip
ENTRY_POINTS = {"rhumbline.cli:main", "rhumbline.testing"}
EXAMPLES = [
    path for path in source_tree.files() if path.is_relative_to("docs") and path.suffix == ".py"
]


def private_imports(code: str) -> list[str]:
    """Return the modules and names that a program imports from the package's private part."""
    found = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import(names=aliases):
                found += [alias.name for alias in aliases if alias.name not in PUBLIC]
            case ast.ImportFrom(module=str(name), level=0, names=aliases) if name in PUBLIC:
                exported = importlib.import_module(name).__all__
                found += [f"{name}.{a.name}" for a in aliases if a.name not in exported]
            case ast.ImportFrom(module=str(name), level=0):
                found.append(name)
    return [name for name in found if name.split(".")[0] == "rhumbline"]


def test_private_imports_are_found() -> None:
    assert private_imports("import rhumbline.core.log.namespace") == [
        "rhumbline.core.log.namespace"
    ]
    assert private_imports("from rhumbline.client.connect import Client")
    assert private_imports("from rhumbline import import_module") == ["rhumbline.import_module"]
    assert not private_imports("import rhumbline\nfrom rhumbline.errors import GapError\n")


@pytest.mark.parametrize("document", source_tree.markdown_files(), ids=str)
def test_documents_import_public_modules_only(document: Path) -> None:
    found = []
    for block in doc_blocks.blocks((ROOT / document).read_text()):
        if block.language == "python":
            found += private_imports(block.text)
        else:  # programs in heredocs, and modules that are run by name
            found += re.findall(
                r"^\s*(?:from|import) (rhumbline(?:\.\w+)+)", block.text, re.MULTILINE
            )
    assert [name for name in found if name not in PUBLIC] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples_import_public_modules_only(example: Path) -> None:
    assert private_imports((ROOT / example).read_text()) == []


def test_entry_points_are_public() -> None:
    lab = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]
    groups = [source_tree.pyproject()["project"]["scripts"], *lab["entry-points"].values()]
    assert {target for group in groups for target in group.values()} == ENTRY_POINTS


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    page = ROOT / "docs/reference/api" / f"{name.rpartition('.')[2]}.md"
    assert f"::: {name}\n" in page.read_text()
    assert len(set(module.__all__)) == len(module.__all__)
    for exported in module.__all__:
        value = getattr(module, exported)
        if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
            assert inspect.getdoc(value), f"{name}.{exported} has no docstring"
