"""Every page in several states of the cluster, light and dark, on a screen and on a phone.

Nothing is wider than the screen, and axe reports nothing serious. With RHUMBLINE_SCREENSHOTS, a
picture of each is written into that folder.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from rhumbline.backends.migration_record import MigrationRecord, write_migration
from rhumbline.cli.console.serving import running_console
from rhumbline.cli.operate.drains.orders import drain_bookie
from rhumbline.cli.operate.opened_cluster import Cluster
from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.client.connect import Client
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.repair.drain_records import DrainRecords
from rhumbline.regions.repair.task_store import TaskStore
from rhumbline.tests.integration.console.test_console_in_a_browser import (
    open_page,
    picture,
    written,
)
from rhumbline.tests.support.processes.web_browser import serious_faults, web_browser
from rhumbline.tests.support.servers.installs import NotInstalledError
from rhumbline.tls.protection import UNPROTECTED

pytestmark = [
    pytest.mark.needs_server("chromium"),
    pytest.mark.long,
    pytest.mark.timeout(900),
]
expect.set_options(timeout=30_000)

REGIONS = ("bonn", "oslo", "rome")
ROUND_TRIPS_MS = {("bonn", "oslo"): 4, ("bonn", "rome"): 8, ("oslo", "rome"): 12}
PAGES = {
    "regions": ".region",
    "streams": "#result table, #result .blank",
    "stream?namespace=shop&stream=orders": ".places, .blank",
    "durability": "#verdict",
    "operations": ".facts",
    "chaos": ".chooser",
}
"""The pages by their address, each with a part that shows that it has its data."""
LOOKS = {"light": (False, False), "dark": (True, False), "phone": (False, True)}
"""Names of pictures, each with whether it is dark, and whether it is on a phone."""


async def test_every_page_is_legible_in_every_state(tmp_path: Path) -> None:
    try:
        async with web_browser(tmp_path) as browser, _cluster(tmp_path) as (cluster, client, url):
            async with written(cluster, client, "rome"):
                await _fill(client)
                found = await _look(browser, url, "healthy")
                await _lose(cluster, client)
                found += await _look(browser, url, "lost")
            found += await _refusals(browser, url)
        async with web_browser(tmp_path) as browser, _empty(tmp_path) as url:
            found += await _look(browser, url, "empty")
        assert found == [], "wider than the screen, or reported by axe"
    except NotInstalledError as error:
        pytest.skip(str(error))


@asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[tuple[LocalCluster, Client, str]]:
    """Run three regions with three bookies each, and a console with actions."""
    root = folder / "cluster"
    root.mkdir()
    cluster = LocalCluster(
        root, REGIONS, bookies_per_region=3, round_trips_ms=ROUND_TRIPS_MS, serves_status=True
    )
    async with cluster, cluster.client("bonn", namespace="shop") as client:
        policy = StreamPolicy(Quorum(3, 3, 2, 2))
        await create_namespace(client.store, client.runtime, "shop", policy)
        async with _console(client) as url:
            yield cluster, client, url


@asynccontextmanager
async def _empty(folder: Path) -> AsyncIterator[str]:
    """Run a cluster without streams."""
    (folder / "empty").mkdir()
    cluster = LocalCluster(folder / "empty", ("bonn",), bookies_per_region=1, round_trips_ms={})
    async with (
        cluster,
        cluster.client("bonn", namespace="shop") as client,
        _console(client) as url,
    ):
        yield url


@asynccontextmanager
async def _console(client: Client) -> AsyncIterator[str]:
    async with running_console(
        client,
        host="127.0.0.1",
        port=0,
        interval_s=0.5,
        protection=UNPROTECTED,
        allows_actions=True,
    ) as url:
        yield url


async def _fill(client: Client) -> None:
    """Create streams, one of them with several segments."""
    namespace = client.namespace()
    for name in ("orders", "orders-audit", "refunds", "shipments", "stock"):
        await namespace.create_stream(name)
    for segment in range(4):
        async with client.writer("orders") as writer:
            records = [b'{"order": %d, "total": "12.50"}' % n for n in range(40 * (segment + 1))]
            await writer.append_many(records)


async def _lose(cluster: LocalCluster, client: Client) -> None:
    """Lose oslo, drain a bookie of rome, and begin to migrate the metadata."""
    for local in cluster.bookies:
        if local.region == "oslo" and local.bookie is not None:
            await local.bookie.aclose()
    cluster.cut("oslo")
    drained = next(one.bookie for one in cluster.bookies if one.region == "rome")
    assert drained is not None
    store = client.global_store
    parts = Cluster(
        store.store,
        store.directory,
        store.ledger_store,
        TaskStore(store.store),
        DrainRecords(store.store),
    )
    await drain_bookie([parts], drained.bookie_id, force=True)
    now_ms = client.runtime.clock.wall_ms()
    record = MigrationRecord(
        client.store.uri, "zk://zk1:2181/ledgers", now_ms, now_ms, "copying", 41_250, 18_200
    )
    await write_migration(client.store, record)


async def _look(browser: Browser, url: str, name: str) -> list[str]:
    """Open every page in every look."""
    found = []
    for look, (dark, phone) in LOOKS.items():
        page = await open_page(browser, url, dark=dark, phone=phone)
        await expect(page.locator("#connection")).to_have_text("live")
        for address, part in PAGES.items():
            await page.goto(f"{url}#/{address}")
            await expect(page.locator(part).first).to_be_visible()
            if name == "lost" and address == "regions":
                await expect(page.locator('.region [data-mode="down"]')).to_have_count(3)
            if name == "lost" and address == "operations":
                await expect(page.locator("[data-down]")).to_have_count(3)
                await expect(page.locator("[data-drain]")).to_have_count(1)
                await expect(page.locator("#migration")).to_contain_text("41,250 nodes")
                await page.locator("[data-down] button").first.click()
                await expect(page.get_by_role("dialog")).to_contain_text("is declared offline")
                await page.keyboard.press("Escape")
            await asyncio.sleep(1.5)  # rates need a second sample
            found += await _judged(page, f"{name}-{address.partition('?')[0]}-{look}")
        await page.context.close()
    return found


async def _refusals(browser: Browser, url: str) -> list[str]:
    """See the states without data: forbidden, signed out, disconnected."""
    found = []
    for look, (dark, phone) in LOOKS.items():
        page = await open_page(browser, f"{url}#/regions", dark=dark, phone=phone)
        await expect(page.locator(".region")).to_have_count(3)
        await page.route("**/api/**", lambda route: route.abort())
        await page.reload()
        await expect(page.locator("#connection")).to_have_text("disconnected")
        found += await _judged(page, f"disconnected-{look}")
        for name, status, document in _REFUSALS:
            await page.unroute("**/api/**")
            await page.route("**/api/session", _fulfilling(status, document))
            await page.reload()
            await expect(page.locator(f'main[data-page="{name}"]')).to_be_visible()
            found += await _judged(page, f"{name}-{look}")
        await page.context.close()
    return found


_REFUSALS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("forbidden", 200, {"principal": "ann", "sees_cluster": False, "may_act": False}),
    ("sign-in", 401, {"code": "unauthorized", "error": "the caller is unknown"}),
)


def _fulfilling(status: int, document: dict[str, Any]) -> Any:  # noqa: ANN401 - Playwright's handler
    return lambda route: route.fulfill(status=status, json=document)


async def _judged(page: Page, name: str) -> list[str]:
    """Take a picture, and return what is wrong with the page."""
    await picture(page, name)
    found = [f"{name}: {fault}" for fault in await serious_faults(page)]
    if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append(f"{name}: wider than the screen")
    return found
