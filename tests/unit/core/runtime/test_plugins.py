"""Openers by scheme: a plug-in is loaded when it is used, and its faults name its package."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rhumbline.core.protocol.errors import NoNodeError, PluginError
from rhumbline.core.runtime.plugins import OpenerTable
from rhumbline.tests.support.fakes.plugin_package import install

GROUP = "rhumbline.test_stores"

Table = OpenerTable[Callable[[], object]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def table() -> Table:
    return OpenerTable("test store", GROUP, {"own": list})


def test_a_plug_in_is_found_by_its_scheme_and_imported_only_then(folder: Path) -> None:
    code = "import sys\ndef open_tree(): return {'tree': 1}\n"
    install(folder, "tree_store", code, {GROUP: {"tree": "tree_store:open_tree"}})
    openers = table()
    assert openers.schemes() == ["own", "tree"]
    own = openers.find("own")
    assert own is not None and own.open() == []
    assert openers.find("bush") is None
    assert "tree_store" not in sys.modules
    found = openers.find("tree")
    assert found is not None
    assert found.open() == {"tree": 1}
    assert openers.find("tree") is found


def test_a_plug_in_cannot_replace_a_store_of_rhumbline(folder: Path) -> None:
    install(folder, "impostor", "def open_it(): ...\n", {GROUP: {"own": "impostor:open_it"}})
    own = table().find("own")
    assert own is not None and own.origin is None
    assert table().schemes() == ["own"]
    assert "impostor" not in sys.modules


@pytest.mark.parametrize(
    ("code", "value", "message"),
    [
        ("import no_such_library\n", "broken:x", "ModuleNotFoundError: No module named 'no_such_"),
        ("def :\n", "broken:x", "cannot be imported: SyntaxError"),
        ("1 / 0\n", "broken:x", "cannot be imported: ZeroDivisionError"),
        ("", "broken:x", "cannot be imported: AttributeError"),
        ("x = 5\n", "broken:x", "broken:x is not callable"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, value: str, message: str
) -> None:
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    install(folder, "broken", code, {GROUP: {"bad": value}})
    with pytest.raises(PluginError) as caught:
        table().find("bad")
    assert "test store 'bad' of package broken 1.0" in str(caught.value)
    assert message in str(caught.value)
    assert table().find("own") is not None


def test_two_packages_with_one_scheme_are_both_named(folder: Path) -> None:
    for name in ("first", "second"):
        install(folder, name, "def open_it(): ...\n", {GROUP: {"same": f"{name}:open_it"}})
    with pytest.raises(PluginError, match=r"several packages: first 1\.0, second 1\.0"):
        table().find("same")


def test_an_unexpected_error_of_a_plug_in_is_attributed_and_others_pass(folder: Path) -> None:
    code = "from rhumbline.errors import NoNodeError\ndef open_it(kind): raise kind\n"
    install(folder, "careless", code, {GROUP: {"careless": "careless:open_it"}})
    openers: OpenerTable[Callable[[Exception], object]] = OpenerTable("test store", GROUP, {})
    found = openers.find("careless")
    assert found is not None
    with (
        pytest.raises(PluginError, match=r"package careless 1\.0 raised KeyError: 'host'"),
        found.attributed(),
    ):
        found.open(KeyError("host"))
    with pytest.raises(NoNodeError), found.attributed():
        found.open(NoNodeError("/a"))


def test_an_error_of_a_store_of_rhumbline_is_not_a_plug_ins() -> None:
    own = table().find("own")
    assert own is not None
    with pytest.raises(KeyError), own.attributed():
        raise KeyError("bug")


def test_a_store_without_a_method_of_the_interface_is_refused(folder: Path) -> None:
    install(folder, "partly", "class Some:\n    uri = 'x'\n", {GROUP: {"some": "partly:Some"}})

    class Interface:
        uri = ""

        def get(self) -> None: ...

    found = table().find("some")
    assert found is not None
    with pytest.raises(PluginError, match=r"package partly 1\.0 opened a Some without get"):
        found.check_interface(found.open(), Interface)
