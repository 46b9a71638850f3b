"""``open_cold_store`` opens stores of installed packages, and reports what is wrong with them."""

import sys
from pathlib import Path

import pytest

from rhumbline.coldstore.stores.open_store import open_cold_store, open_s3_store
from rhumbline.core.protocol.errors import ConfigurationError, PluginError
from rhumbline.core.runtime.plugins import COLD_STORES
from rhumbline.tests.support.fakes.plugin_package import install

CODE = """
from pathlib import Path
from rhumbline.coldstore.stores.local import LocalColdStore
def open_copy(uri): return LocalColdStore(Path(uri.partition(':')[2]))
def open_nothing(uri): return None
"""


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ("hdfs://head/cold", "webhdfs://head:9870/cold"),
        ("hdfs://head:8020/cold?user=me", "webhdfs://head:9870/cold"),
        ("hdfs://[::1]:8020/cold?http-port=50070", "webhdfs://[::1]:50070/cold"),
    ],
)
async def test_hadoop_names_of_hdfs_are_opened_at_the_http_port(given: str, opened: str) -> None:
    store = open_cold_store(given)
    assert store.uri == opened
    await store.close()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("hdfs:///cold", "names no host"),
        ("hdfs://head/cold?http-port=x", "http-port 'x' is not between 1 and 65535"),
        ("hdfs://head/cold?port=1", "unknown option port"),
    ],
)
def test_wrong_hadoop_names_are_refused(given: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        open_cold_store(given)


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
    with pytest.raises(ConfigurationError, match="webhdfs, hdfs, swebhdfs, unit-copy, unit-noth"):
        open_cold_store("paper://notes")


async def test_hdfs_over_https_keeps_its_scheme() -> None:
    for uri in ("webhdfs://namenode:9870/archive", "swebhdfs://namenode:9871/archive"):
        store = open_cold_store(uri)
        assert store.uri == uri
        await store.close()
    with pytest.raises(ConfigurationError, match="swebhdfs://host:port/root"):
        open_cold_store("swebhdfs:")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("swebhdfs://head:9871/a?authentication=ldap", "'ldap' is neither simple nor kerberos"),
        ("webhdfs://head:9870/a?authentication=kerberos", "Kerberos needs https: write swebhdfs:"),
        ("hdfs://head/a?authentication=kerberos", "unknown option authentication"),
        ("swebhdfs://head:9871/a?authentication=kerberos&user=me", "leave out the option user"),
    ],
)
def test_kerberos_is_used_over_https_and_for_the_user_of_the_ticket(
    given: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        open_cold_store(given)


def test_kerberos_that_is_not_installed_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = "swebhdfs://head:9871/a?authentication=kerberos"
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r"needs gssapi: .*'rhumbline\[kerberos\]'"):
        open_cold_store(uri)


@pytest.mark.parametrize("uri", ["swebhdfs://namenode:9871/a?", "s3://bucket/a?region=north&"])
def test_a_file_of_authorities_that_cannot_be_used_is_an_error(uri: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ca .*absent\.pem: No such file"):
        open_cold_store(f"{uri}ca={tmp_path}/absent.pem")
    (tmp_path / "empty.pem").touch()
    with pytest.raises(ConfigurationError, match=r"ca .*empty"):
        open_cold_store(f"{uri}ca={tmp_path}/empty.pem")


async def test_settings_of_s3_come_from_the_given_environment() -> None:
    store = open_s3_store("s3a://bucket/cold", {"RHUMBLINE_S3_ENDPOINT": "http://store:9000"})
    assert store.uri == "s3://bucket/cold"
    await store.close()
    with pytest.raises(ConfigurationError, match="Invalid endpoint"):
        open_s3_store("s3://bucket/cold", {"RHUMBLINE_S3_ENDPOINT": "store:9000"})
