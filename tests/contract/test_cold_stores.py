"""Every cold store passes the same checks; real servers, where they can be had."""

import asyncio
import os
from pathlib import Path

import pytest

from rhumbline.coldstore.conformance import CHECKS
from rhumbline.coldstore.local import LocalColdStore, sweep_leftovers
from rhumbline.coldstore.open import open_cold_store
from rhumbline.core.protocol.errors import ConfigurationError


@pytest.mark.parametrize("name", CHECKS)
def test_a_local_directory_keeps_the_contract(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = LocalColdStore(tmp_path / "cold")
        try:
            await CHECKS[name](store)
        finally:
            await store.close()

    asyncio.run(main())


def test_leftovers_of_a_crash_are_never_listed_and_are_swept_when_old(tmp_path: Path) -> None:
    fresh, old = tmp_path / "a" / ".part-1", tmp_path / "a" / ".part-2"
    fresh.parent.mkdir()
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))

    async def main() -> list[str]:
        store = LocalColdStore(tmp_path)
        try:
            return await store.list()
        finally:
            await store.close()

    assert asyncio.run(main()) == []
    assert sweep_leftovers(tmp_path) == 1
    assert fresh.exists()
    assert not old.exists()


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
def test_a_bad_uri_says_what_to_write(uri: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_cold_store(uri)
