"""``open_cold_store`` opens stores of installed packages, and reports what is wrong with them."""

from pathlib import Path

import pytest

from rhumbline.coldstore.stores.open_store import open_cold_store
from rhumbline.core.protocol.errors import ConfigurationError, PluginError
from rhumbline.core.runtime.plugins import COLD_STORES
from rhumbline.tests.support.fakes.plugin_package import install

CODE = """
from pathlib import Path
from rhumbline.coldstore.stores.local import LocalColdStore
def open_copy(uri): return LocalColdStore(Path(uri.partition(':')[2]))
def open_nothing(uri): return None
"""


async def test_a_store_of_a_package_is_opened_by_its_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"unit-copy": "unit_cold:open_copy", "unit-nothing": "unit_cold:open_nothing"}
    install(tmp_path, "unit_cold", CODE, {COLD_STORES: entries})
    monkeypatch.syspath_prepend(tmp_path)
    store = open_cold_store(f"unit-copy:{tmp_path}/cold")
    assert await store.put_if_absent("a", b"1")
    assert await store.get("a") == b"1"
    await store.close()
    with pytest.raises(PluginError, match=r"unit_cold 1\.0 opened a NoneType without .*delete"):
        open_cold_store("unit-nothing:")
    with pytest.raises(ConfigurationError, match="file, s3, s3a, webhdfs, unit-copy, unit-noth"):
        open_cold_store("paper://notes")
