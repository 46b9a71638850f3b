"""Regions are declared once, changed one at a time, and unknown ones are refused by name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import initialise_store
from rhumbline.core.metadata.declared_regions import (
    add_region,
    check_declared,
    declare_regions,
    read_declared_regions,
    remove_region,
)
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import ConfigurationError, InvalidArgumentError
from rhumbline.core.wire.cookie import Cookie


@asynccontextmanager
async def cluster(*regions: str) -> AsyncIterator[tuple[MemoryStore, BookieDirectory]]:
    """Yield the store and the directory of a cluster with a bookie in each of the regions."""
    store = MemoryStore()
    await initialise_store(store, "instance")
    directory = BookieDirectory(store)
    for number, region in enumerate(regions):
        await format_in(directory, region, number)
    yield store, directory
    directory.close()
    await store.close()


async def format_in(directory: BookieDirectory, region: str, number: int = 0) -> None:
    bookie = BookieId(f"b{number}@0000000{number}")
    await directory.record_region(bookie, Region(region))
    await directory.write_cookie(Cookie(bookie, "j", ("l",), "instance"))


def test_a_cluster_that_declares_nothing_accepts_every_region() -> None:
    check_declared("atlantis", None, "bookie b1")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("bon", " (did you mean bonn?)"), ("Oslo", " (did you mean oslo?)"), ("atlantis", "")],
)
def test_an_unknown_region_is_refused_with_a_suggestion(name: str, hint: str) -> None:
    declared = [Region("rome"), Region("bonn"), Region("oslo")]
    with pytest.raises(ConfigurationError) as raised:
        check_declared(name, declared, "bookie b1")
    assert str(raised.value) == (
        f"bookie b1 names region {name}, which the cluster does not have{hint}; its regions are "
        "bonn, oslo, rome; add one with `rhumbline region add`"
    )
    check_declared("oslo", declared, "bookie b1")


async def test_regions_are_declared_once() -> None:
    async with cluster() as (store, directory):
        assert await read_declared_regions(store) is None
        for _ in range(2):
            assert await declare_regions(store, directory, ["b", "a", "b"]) == ["a", "b"]
        assert await read_declared_regions(store) == ["a", "b"]
        with pytest.raises(ConfigurationError, match="declares other regions: a, b"):
            await declare_regions(store, directory, ["a"])
        with pytest.raises(InvalidArgumentError):
            await declare_regions(store, directory, ["a/b"])


async def test_a_declaration_must_contain_the_regions_of_all_bookies() -> None:
    async with cluster("a", "a", "x") as (store, directory):
        with pytest.raises(ConfigurationError, match="region x has 1 formatted bookies"):
            await declare_regions(store, directory, ["a", "b"])
        assert await read_declared_regions(store) is None
        assert await declare_regions(store, directory, ["a", "b", "x"]) == ["a", "b", "x"]


async def test_regions_are_added_and_removed_if_they_are_empty() -> None:
    async with cluster("a") as (store, directory):
        for change in (add_region(store, "c"), remove_region(store, directory, "b")):
            with pytest.raises(ConfigurationError, match="does not declare its regions"):
                await change
        await declare_regions(store, directory, ["a", "b"])
        for _ in range(2):
            assert await add_region(store, "c") == ["a", "b", "c"]
        for _ in range(2):
            assert await remove_region(store, directory, "b") == ["a", "c"]
        with pytest.raises(ConfigurationError, match="region a has 1 formatted bookies"):
            await remove_region(store, directory, "a")
        assert await read_declared_regions(store) == ["a", "c"]


class LateDirectory(BookieDirectory):
    """A directory in which a bookie is formatted in region b before the second look."""

    __slots__ = ("looks",)

    async def all_known(self) -> list[BookieId]:
        self.looks = getattr(self, "looks", 0) + 1
        if self.looks == 2:
            await format_in(self, "b", 7)
        return await super().all_known()


async def test_a_bookie_that_is_formatted_during_the_removal_keeps_its_region() -> None:
    async with cluster("a") as (store, directory):
        await declare_regions(store, directory, ["a", "b"])
        late = LateDirectory(store)
        with pytest.raises(ConfigurationError, match="region b has 1 formatted bookies"):
            await remove_region(store, late, "b")
        assert await read_declared_regions(store) == ["a", "b"]
        late.close()
