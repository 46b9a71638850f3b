"""The console in Chromium while real outages happen: bookies are processes behind toxiproxy links.

With RHUMBLINE_SCREENSHOTS, pictures are written into that folder.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from rhumbline.access.grant_store import change_grants
from rhumbline.chaos.lab import product_settings, scenario_library
from rhumbline.chaos.lab.scenario import FaultTable
from rhumbline.chaos.lab.wan.cluster import WanCluster
from rhumbline.chaos.lab.wan.faults import Faults
from rhumbline.chaos.lab.wan.programs import app
from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.cli.console.serving import running_console
from rhumbline.client.connect import Client
from rhumbline.security.grants import make_grant
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.integration.console.test_console_in_a_browser import open_page, picture
from rhumbline.tests.support.processes.web_browser import serious_faults, web_browser
from rhumbline.tests.support.servers.installs import NotInstalledError, toxiproxy_binary
from rhumbline.tls.protection import UNPROTECTED, Protection

pytestmark = [
    pytest.mark.needs_server("chromium"),
    pytest.mark.needs_server("toxiproxy"),
    pytest.mark.long,
    pytest.mark.timeout(600),
]
expect.set_options(timeout=60_000)

HOME, CUT, WIPED = "east", "west", "bookie-north-0"
INTERVAL_S = 0.5
STREAM_PAGE = f"#/stream?namespace={app.NAMESPACE}&stream={app.STREAM}"


class Load:
    """Appends to the stream, and counts what is acknowledged."""

    def __init__(self) -> None:
        self.acked = 0

    async def run(self, client: Client) -> None:
        """Append until the task is cancelled."""
        async with client.writer(app.STREAM) as writer:
            while True:
                await writer.append(b"order %d" % self.acked)
                self.acked += 1
                await asyncio.sleep(0.02)

    async def goes_on(self) -> None:
        """Wait until further appends are acknowledged."""
        wanted = self.acked + 20
        async with asyncio.timeout(60):
            while True:
                if self.acked >= wanted:
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def processes(folder: Path) -> AsyncIterator[WanCluster]:
    """Run two bookies in each of three regions, with a link for each pair, and repair."""
    scenario = scenario_library.load("region-returns-and-copies-spread")
    cluster = WanCluster(scenario, folder, toxiproxy_binary().parent.parent)
    try:
        await cluster.start_bare(is_linked=True)
        command = rhumbline_command(
            "repair", "run", "-u", cluster.uri(HOME), "-n", app.NAMESPACE, "--region", HOME,
            "--lost-after", "4s", "--audit-interval", "1s", "--status-port", "0",
        )  # fmt: skip
        log = folder / "repair.log"
        repair = ManagedProcess("repair", command, log, cwd=folder, ready="repairing")
        with repair:
            yield cluster
    finally:
        cluster.aclose()


async def test_outages_and_their_repair_are_seen_while_they_last(tmp_path: Path) -> None:
    try:
        await see_outages(tmp_path)
    except NotInstalledError as error:
        pytest.skip(str(error))


async def see_outages(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    async with AsyncExitStack() as opened:
        browser = await opened.enter_async_context(web_browser(tmp_path))
        cluster = await opened.enter_async_context(processes(tmp_path / "cluster"))
        client = await opened.enter_async_context(
            Client(
                cluster.uri(HOME),
                namespace=app.NAMESPACE,
                region=HOME,
                ledger=product_settings.LEDGER,
            )
        )
        url = await opened.enter_async_context(
            running_console(
                client, host="127.0.0.1", port=0, interval_s=INTERVAL_S, protection=UNPROTECTED
            )
        )
        load = Load()
        writing = asyncio.create_task(load.run(client))
        faults: list[str] = []
        page = await open_page(browser, url)
        page.on("pageerror", lambda error: faults.append(str(error)))
        try:
            found = await see_a_cut_region(page, cluster, load)
            found += await see_a_lost_disk(page, url, cluster, load)
            found += await see_the_tail(page, url)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        found += await see_what_if(page, url)
        found += await see_permissions(browser, client, tmp_path)
        assert faults == [], "errors of the page"
        assert found == [], "reported by axe"


async def see_a_cut_region(page: Page, cluster: WanCluster, load: Load) -> list[str]:
    """A region is cut off under load: its link is dashed, writes go on, and it comes back."""
    await expect(page.locator(".region")).to_have_count(3)
    await expect(page.locator('.region .server[data-mode="writable"]')).to_have_count(6)
    await expect(page.locator(".link.cut")).to_have_count(0)
    await load.goes_on()
    await picture(page, "outage-none")

    async def relaunch(name: str) -> None:
        raise AssertionError(f"{name} was not killed")

    faults = Faults(cluster, 1, relaunch)
    heal = await faults.begin(FaultTable("cut-region", CUT, lasts_ms=60_000), CUT)
    assert heal is not None
    await expect(page.locator(".link.cut")).to_contain_text("no response")
    await expect(page.locator(".link.cut")).to_have_count(1)
    await load.goes_on()
    await picture(page, "outage-cut-region")
    found = await serious_faults(page)
    await heal()
    await expect(page.locator(".link.cut")).to_have_count(0)
    return found


async def see_a_lost_disk(page: Page, url: str, cluster: WanCluster, load: Load) -> list[str]:
    """A disk is lost: the bookie is down, copies are reduced, and repair makes them whole."""
    bookie = cluster.bookie(WIPED)
    bookie.wipe()
    server = page.locator(f'[data-server="{bookie.bookie_id}"]')
    await expect(server).to_have_attribute("data-mode", "down")
    await expect(page.locator(".alerts")).to_contain_text(bookie.bookie_id)
    await load.goes_on()
    await picture(page, "outage-lost-disk")
    found = await serious_faults(page)
    await page.goto(f"{url}#/durability")
    await expect(page.locator("#verdict")).to_have_attribute("data-verdict", "plain")
    whole = page.get_by_role("row", name=re.compile("^whole"))
    await expect(whole.locator("td").nth(2)).not_to_have_text("0")  # closed ledgers
    reduced = page.get_by_role("row", name=re.compile("^(at risk|lost|reduced)"))
    for index in range(await reduced.count()):
        await expect(reduced.nth(index).locator("td").nth(2)).to_have_text("0")
    await picture(page, "outage-healed")
    return found + await serious_faults(page)


async def see_the_tail(page: Page, url: str) -> list[str]:
    """Under load the tail is paused, filtered, and continued where it was."""
    await page.goto(f"{url}{STREAM_PAGE}")
    lines = page.locator("#lines li")
    await expect(lines.first).to_be_visible()
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator("#tail-status")).to_contain_text("Paused at")
    shown = await lines.count()
    last = await lines.last.locator(".payload").text_content()
    assert last is not None
    await asyncio.sleep(1)  # records that arrive now are not shown
    assert await lines.count() == shown
    await page.get_by_label("Filter").fill(last)
    await expect(page.locator("#lines li:visible").last).to_contain_text(last)
    await picture(page, "outage-tail-paused")
    following = f"order {int(last.split()[1]) + 1}"
    await page.get_by_label("Filter").fill(following)
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator("#lines li:visible").first).to_contain_text(following)
    return await serious_faults(page)


async def see_what_if(page: Page, url: str) -> list[str]:
    """Two regions are taken away, by which data may be lost; nothing is changed by the question."""
    await page.goto(f"{url}#/durability")
    for region in (HOME, CUT):
        await page.locator(f'[data-lose="{region}"]').press("Enter")
    await expect(page.locator("#verdict")).to_have_attribute("data-verdict", re.compile("bad|warn"))
    await expect(page.locator("#verdict h2")).to_contain_text(f"{HOME}, {CUT}")
    await picture(page, "outage-what-if")
    found = await serious_faults(page)
    for region in (HOME, CUT):
        await page.locator(f'[data-lose="{region}"]').press("Enter")
    await expect(page.locator("#verdict")).to_have_attribute("data-verdict", "plain")
    return found


async def see_permissions(browser: Browser, client: Client, folder: Path) -> list[str]:
    """A principal without grants is refused on each page, until a grant is given."""
    tokens = folder / "tokens"
    tokens.write_text(static_token_line("ann", "token-of-ann", [Role.CLIENT]) + "\n")
    security = SecuritySettings(
        static_tokens=str(tokens), access_control=True, grants_refresh_ms=200
    )
    async with running_console(
        client,
        host="127.0.0.1",
        port=0,
        interval_s=INTERVAL_S,
        protection=Protection(security=security),
    ) as url:
        page = await open_page(browser, f"{url}#/regions")
        await page.get_by_label("Token").fill("token-of-ann")
        await page.get_by_label("Token").press("Enter")
        for address in ("#/regions", "#/durability", "#/chaos", STREAM_PAGE):
            await page.goto(f"{url}{address}")
            await expect(page.get_by_text("Not permitted")).to_be_visible()
        await picture(page, "outage-forbidden")
        found = await serious_faults(page)
        grant = make_grant("ann", ["read"], "cluster")
        await change_grants(client.store, lambda table: table.granted(grant))
        await asyncio.sleep(1)
        await page.goto(f"{url}#/regions")
        await page.reload()
        await expect(page.locator(".region")).to_have_count(3)
        await page.context.close()
        return found
