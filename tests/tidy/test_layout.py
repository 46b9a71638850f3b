"""Checks the layout: the list of packages, the folders and the import contracts."""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

RE_EXPORT_FOLDERS = ("", "cli/", "spark/", "telemetry/", "testing/", "typed/")
RE_EXPORTS = {Path(f"{folder}__init__.py") for folder in RE_EXPORT_FOLDERS}
LAB = {"bench", "chaos", "testing"}  # the distribution rhumbline-lab
LAUNCHER = Path("spark/submit.py")  # spark-submit runs it as __main__
RESTRICTED = {"regions", "proxies", "spark"}  # may import less than the layers allow


def contract(name: str) -> dict[str, Any]:
    """Return one import contract of pyproject.toml."""
    contracts = source_tree.pyproject()["tool"]["importlinter"]["contracts"]
    return next(c for c in contracts if c["id"] == name)


def layer_names(name: str) -> set[str]:
    return set(re.findall(r"\w+", " ".join(contract(name)["layers"])))


def test_list_of_packages_is_complete() -> None:
    listed = source_tree.pyproject()["tool"]["setuptools"]["packages"]
    of_base = [name for name in source_tree.packages() if not LAB & {*name.split(".")[1:2]}]
    assert listed == of_base, "run `make packages`"


def test_the_lab_is_of_the_same_version() -> None:
    project = source_tree.pyproject()["project"]
    lab = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]
    assert lab["version"] == project["version"]
    assert lab["dependencies"] == [f"rhumbline=={project['version']}"]
    assert project["optional-dependencies"]["lab"] == [f"rhumbline-lab=={project['version']}"]


def test_only_the_lab_may_import_the_lab() -> None:
    first = [set(re.findall(r"\w+", layer)) for layer in contract("folders")["layers"][:2]]
    assert first == [{"testing"}, {"bench", "chaos"}]


def test_import_contract_covers_every_folder() -> None:
    assert set(source_tree.product_folders()) <= layer_names("folders")
    assert contract("folders")["exhaustive"] is True
    of_core = {package.split(".")[2] for package in source_tree.packages() if ".core." in package}
    assert of_core == layer_names("core")
    assert contract("core")["exhaustive"] is True
    for folder in RESTRICTED:
        assert contract(folder)["source_modules"] == [f"rhumbline.{folder}.*"]


def test_no_folder_is_importable_at_top_level() -> None:
    tidy_imports = source_tree.pyproject()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]
    assert {*source_tree.product_folders(), "tests"} <= set(tidy_imports["banned-api"])


def test_root_holds_only_the_public_modules() -> None:
    at_root = [
        path.stem for path in source_tree.files() if len(path.parts) == 1 and path.suffix == ".py"
    ]
    packages = source_tree.product_folders()
    public = {"__init__", *import_module("rhumbline").__all__} - {*packages}
    assert set(at_root) <= public


def test_tests_are_not_a_package() -> None:
    assert not [p for p in source_tree.files() if p.parts[0] == "tests" and p.name == "__init__.py"]


@pytest.mark.parametrize("package", source_tree.packages())
def test_package_has_a_caption(package: str) -> None:
    path = source_tree.folder_of(package) / "__init__.py"
    assert (ROOT / path).is_file(), f"{path} is missing"
    tree = source_tree.parse(path)
    caption = ast.get_docstring(tree)
    assert caption and "\n" not in caption and caption.endswith("."), (
        f"{path}: the docstring is not one sentence in one line"
    )
    if path not in RE_EXPORTS:
        assert len(tree.body) == 1, f"{path}: an __init__.py holds its docstring and nothing else"


def test_product_imports_itself_relatively() -> None:
    faults = []
    for module in source_tree.product_modules():
        if module == LAUNCHER:
            continue
        for node in ast.walk(source_tree.parse(module)):
            match node:
                case ast.Import(names=aliases):
                    names = [alias.name for alias in aliases]
                case ast.ImportFrom(module=str(name), level=0):
                    names = [name]
                case _:
                    names = []
            faults += [f"{module}: {n}" for n in names if n.split(".")[0] == "rhumbline"]
    assert not faults, faults


def test_type_link_leads_to_the_root() -> None:
    link = ROOT / source_tree.TYPE_LINK / "rhumbline"
    assert link.is_symlink()
    assert str(link.readlink()) == ".."
