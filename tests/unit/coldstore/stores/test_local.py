"""Tests of the local cold store beyond the kit: its folder disappears while an object is stored."""

import asyncio
import os
from pathlib import Path

import pytest

from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.errors import UnavailableError


def test_a_folder_that_disappears_during_a_put_makes_the_store_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "cold"

    def disappear(source: str | Path, target: str | Path) -> None:
        root.rename(tmp_path / "away")
        root.write_bytes(b"")  # as the lab takes a cold store away
        raise NotADirectoryError(20, "Not a directory", str(target))

    async def put() -> None:
        store = LocalColdStore(root)
        with monkeypatch.context() as patch:
            patch.setattr(os, "link", disappear)
            with pytest.raises(UnavailableError, match="Not a directory"):
                await store.put_if_absent("test/s/object", b"data")
        root.unlink()
        (tmp_path / "away").rename(root)
        assert await store.put_if_absent("test/s/object", b"data")
        await store.close()

    asyncio.run(put())
