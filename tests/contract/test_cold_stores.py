"""Conformance of every cold store, on real servers where they are installed."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from rhumbline.chaos.lab.ports import free_port
from rhumbline.coldstore.stores.conformance import CHECKS
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.coldstore.stores.open_store import open_cold_store
from rhumbline.coldstore.stores.s3 import S3ColdStore, S3Options
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
)
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.support.servers import cold_servers


def checked(name: str, store: ColdStore) -> None:
    """Run one check of the conformance kit on a store, then close the store."""

    async def main() -> None:
        try:
            await CHECKS[name](store)
        finally:
            await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", CHECKS)
def test_a_local_directory_keeps_the_contract(name: str, tmp_path: Path) -> None:
    checked(name, LocalColdStore(tmp_path / "cold"))


@pytest.mark.needs_server("s3")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", CHECKS)
def test_s3_keeps_the_contract(name: str) -> None:
    checked(name, cold_servers.s3_store())


@pytest.mark.needs_server("hdfs")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", CHECKS)
def test_hdfs_keeps_the_contract(name: str) -> None:
    checked(name, cold_servers.hdfs_store())


@pytest.mark.needs_server("s3")
def test_s3_refusals_are_typed() -> None:
    with pytest.raises(UnauthorizedError):
        checked("an_existing_key_is_not_replaced", cold_servers.s3_store(secret_key="wrong"))
    with pytest.raises(ConfigurationError):
        checked("an_existing_key_is_not_replaced", cold_servers.s3_store(bucket="no-such-bucket"))


def test_an_unreachable_store_is_unavailable() -> None:
    away = S3Options("bucket", endpoint=f"http://127.0.0.1:{free_port()}", access_key="a",
                     secret_key="b", timeout_ms=2000)  # fmt: skip
    with pytest.raises(UnknownOutcomeError):
        checked("an_existing_key_is_not_replaced", S3ColdStore(away))
    with pytest.raises(UnavailableError):
        checked("absent_keys_are_reported", S3ColdStore(away))


async def test_leftovers_of_a_crash_are_never_listed_and_are_swept_when_old(tmp_path: Path) -> None:
    fresh, old = tmp_path / ".uploading" / "1", tmp_path / ".uploading" / "2"
    fresh.parent.mkdir()
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))

    store = LocalColdStore(tmp_path)
    assert await store.list() == []
    assert old.exists(), "a store that is only read removes nothing"
    await store.put_if_absent("key", b"whole")
    assert await store.list() == ["key"]
    await store.close()
    assert fresh.exists()
    assert not old.exists()


@pytest.mark.needs_server("hdfs")
@pytest.mark.timeout(400)
async def test_leftovers_in_hdfs_are_never_listed_and_are_swept_when_old() -> None:
    store = cold_servers.hdfs_store(root="/leftovers")
    client: Any = store._client
    for name in ("1", "2"):
        client.write(f"/leftovers/.uploading/{name}", data=b"half")
    client.set_times("/leftovers/.uploading/2", modification_time=1)
    assert await store.list() == []
    await store.put_if_absent("key", b"whole")
    assert await store.list() == ["key"]
    assert client.list("/leftovers/.uploading") == ["1"]
    await store.close()


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("ftp://host/x", "no cold store for"),
        ("file://relative", "absolute"),
        ("s3:///prefix", "names no bucket"),
        ("webhdfs:///x", "names no host"),
        ("s3://bucket/p?secret=x", "unknown option secret"),
    ],
)
def test_a_bad_uri_raises_with_the_expected_form(uri: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_cold_store(uri)
