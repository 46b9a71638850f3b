"""``undrain`` says that new data is accepted only if a bookie takes some now."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from rhumbline.cli.console.operations.actions import ActionKind, Actions
from rhumbline.cli.main import main
from rhumbline.client.connect import Client
from rhumbline.tests.unit.cli.operate.test_durability import ON, Cluster

LATER = "is withdrawn; it accepts no new data yet: see `rhumbline node ls`"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = Cluster(f"sqlite://{tmp_path}/metadata.db")
    asyncio.run(found.fill())
    return found


def order(cluster: Cluster, *command: str) -> str:
    result = CliRunner().invoke(main, [*command, "-u", cluster.uri])
    assert result.exit_code == 0, result.output
    return result.output.strip()


def by_console(cluster: Cluster, target: str) -> str:
    async def act() -> str:
        async with Client(cluster.uri, moves_data=False) as client:
            actions = Actions(client)
            planned = await actions.plan(ActionKind.UNDRAIN, target)
            return await actions.act(ActionKind.UNDRAIN, target, planned.basis)

    return asyncio.run(act())


def test_a_bookie_of_a_closed_region_accepts_nothing_yet(cluster: Cluster) -> None:
    bookie = ON["oslo-1"]
    order(cluster, "region", "disallow", "oslo")
    assert order(cluster, "node", "undrain", "oslo-1") == f"the order for {bookie} {LATER}"
    target = f"bookie:{bookie}"
    assert by_console(cluster, target) == f"the order for bookie {bookie} {LATER}"
    assert order(cluster, "region", "undrain", "oslo") == "region oslo accepts new data"
    assert order(cluster, "node", "undrain", "oslo-1") == f"{bookie} accepts new data"
    assert by_console(cluster, target) == f"bookie {bookie} accepts new data"


def test_a_region_accepts_data_if_one_of_its_bookies_does(cluster: Cluster) -> None:
    asyncio.run(cluster.kill("oslo-1"))
    assert order(cluster, "node", "undrain", "oslo-1") == f"the order for {ON['oslo-1']} {LATER}"
    assert order(cluster, "region", "undrain", "oslo") == "region oslo accepts new data"
    asyncio.run(cluster.kill("oslo-2"))
    assert order(cluster, "region", "undrain", "oslo") == f"the order for region oslo {LATER}"
    assert by_console(cluster, "region:oslo") == f"the order for region oslo {LATER}"
