"""``rhumbline node adopt`` records regions once, and only if all are known."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rhumbline.backends.open_store import open_store
from rhumbline.cli.main import main
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.metadata.declared_regions import declare_regions
from rhumbline.core.protocol.bookie_id import BookieId, check_bookie_id
from rhumbline.core.wire.registration import Registration, encode

UP, LEGACY, DOWN = (check_bookie_id(f"10.{n}.0.1:3181") for n in (1, 2, 3))
MAPPING = '[regions]\n"10.1.0.0/16" = "bonn"\n"10.2.0.1" = "oslo"\n"10.3.0.1:3181" = "rome"\n'
ALL = {UP: "bonn", LEGACY: "oslo", DOWN: "rome"}


class ApacheMetadata:
    """A store with bookies that have no region: one up, one of the legacy form, one down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = f"sqlite://{folder}/metadata.db"
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        store = await open_store(self.uri)
        await initialise_cluster(store, Random(1))
        paths = Paths()
        for bookie in ALL:
            await store.create(paths.cookie(bookie), b"of Apache")
        registration = encode(Registration(UP, "10.1.0.1", 3181))
        await store.create(paths.registration(UP, read_only=False), registration)
        await store.create(paths.registration(LEGACY, read_only=True), b"")
        await store.close()

    def adopt(self, *arguments: str) -> Result:
        command = ["node", "adopt", "-u", self.uri, "-o", "json", *arguments]
        return CliRunner().invoke(main, command)

    def file(self, text: str) -> str:
        path = self.folder / "regions.toml"
        path.write_text(text)
        return str(path)

    def script(self, text: str) -> str:
        path = self.folder / "topology.sh"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def regions(self) -> dict[BookieId, str]:
        async def read() -> dict[BookieId, str]:
            store = await open_store(self.uri)
            directory = BookieDirectory(store)
            found = {one: await directory.region_of(one) for one in ALL}
            await store.close()
            return {one: region for one, region in found.items() if region is not None}

        return asyncio.run(read())

    def declare(self, *names: str) -> None:
        async def write() -> None:
            store = await open_store(self.uri)
            await declare_regions(store, BookieDirectory(store), names)
            await store.close()

        asyncio.run(write())


@pytest.fixture
def apache(tmp_path: Path) -> ApacheMetadata:
    return ApacheMetadata(tmp_path)


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_every_bookie_gets_its_region_once(apache: ApacheMetadata) -> None:
    mapping = apache.file(MAPPING)
    dry = rows(apache.adopt("--regions", mapping, "--dry-run"))
    assert {row["bookie"]: row["region"] for row in dry} == ALL
    assert apache.regions() == {}
    assert rows(apache.adopt("--regions", mapping)) == dry
    assert apache.regions() == ALL
    other = apache.file('[regions]\n"0.0.0.0/0" = "paris"\n')
    again = rows(apache.adopt("--regions", other))
    assert {row["bookie"]: row["region"] for row in again} == ALL, "a region never changes"
    assert not any(row["is_new"] for row in again)


def test_nothing_is_recorded_unless_every_bookie_has_a_region(apache: ApacheMetadata) -> None:
    result = apache.adopt("--regions", apache.file('[regions]\n"10.1.0.0/16" = "bonn"\n'))
    assert result.exit_code != 0
    assert f"no region is given for bookies {LEGACY}, {DOWN}" in result.output
    assert apache.regions() == {}


def test_a_region_that_the_cluster_does_not_declare_is_refused(apache: ApacheMetadata) -> None:
    apache.declare("bonn", "oslo", "rom")
    result = apache.adopt("--regions", apache.file(MAPPING))
    assert result.exit_code != 0
    assert "names region rome, which the cluster does not have" in result.output
    assert apache.regions() == {}


def test_a_topology_script_gives_the_regions(apache: ApacheMetadata) -> None:
    script = apache.script(
        "for h; do case $h in 10.1.*) echo /bonn/r1;; *) echo /oslo/r2;; esac; done"
    )
    found = rows(apache.adopt("--script", script))
    assert [row["region"] for row in found] == ["bonn", "oslo", "oslo"]
    assert apache.regions() == {UP: "bonn", LEGACY: "oslo", DOWN: "oslo"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "ended with code 3"),
        ("echo /default-rack /default-rack /default-rack", "is not /region/rack"),
    ],
)
def test_a_script_that_fails_records_nothing(
    apache: ApacheMetadata, text: str, message: str
) -> None:
    result = apache.adopt("--script", apache.script(text))
    assert result.exit_code != 0
    assert message in result.output
    assert apache.regions() == {}


def test_exactly_one_source_of_regions_is_needed(apache: ApacheMetadata) -> None:
    assert "exactly one of --regions and --script" in apache.adopt().output
