"""``open_store`` opens stores of installed packages, and reports what is wrong with them."""

from pathlib import Path

import pytest

from rhumbline.backends.open_store import open_store
from rhumbline.core.protocol.errors import ConfigurationError, PluginError
from rhumbline.core.runtime.plugins import METADATA_STORES
from rhumbline.tests.support.fakes.plugin_package import install

CODE = """
from rhumbline.backends.memory import MemoryStore
async def open_copy(uri, timeout_ms): return MemoryStore(uri=uri.text)
async def open_nothing(uri, timeout_ms): return object()
async def open_late(uri): return MemoryStore()
"""


@pytest.fixture(autouse=True)
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("copy", "nothing", "late")
    entries = {f"unit-{name}": f"unit_stores:open_{name}" for name in names}
    install(tmp_path, "unit_stores", CODE, {METADATA_STORES: entries})
    monkeypatch.syspath_prepend(tmp_path)


async def test_a_store_of_a_package_is_opened_by_its_scheme() -> None:
    store = await open_store("unit-copy://somewhere")
    assert store.uri == "unit-copy://somewhere"
    await store.create("/a", b"1")
    assert (await store.get("/a")).data == b"1"
    await store.close()


async def test_faults_of_a_package_are_reported_with_its_name() -> None:
    with pytest.raises(PluginError, match=r"unit_stores 1\.0 opened a object without .*children"):
        await open_store("unit-nothing:")
    with pytest.raises(PluginError, match=r"unit_stores 1\.0 raised TypeError: .*open_late"):
        await open_store("unit-late:")


async def test_an_unknown_scheme_is_refused_with_all_known_ones() -> None:
    with pytest.raises(
        ConfigurationError,
        match="known: memory, sqlite, zk, etcd, fdb, unit-copy, unit-late, unit-nothing",
    ):
        await open_store("paper://notes")
