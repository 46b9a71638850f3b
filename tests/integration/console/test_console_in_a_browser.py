"""The console in Chromium, over a real cluster of three regions.

With RHUMBLINE_SCREENSHOTS, the pictures of the guide are written into that folder.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.client.connect import Client, connect
from rhumbline.tests.integration.console.test_console_over_http import three_regions, write_proxy
from rhumbline.tests.support.processes.web_browser import serious_faults, web_browser
from rhumbline.tests.support.servers.installs import NotInstalledError

pytestmark = pytest.mark.needs_server("chromium")
expect.set_options(timeout=30_000)

SIZE = {"width": 1280, "height": 720}
PHONE = {"width": 390, "height": 800}
PAGES = {
    "regions": ".region",
    "streams": "tbody tr",
    "stream?namespace=shop&stream=orders": ".places",
    "durability?lose=oslo": "#verdict",
    "operations": ".facts",
}
"""The pages by their address, each with a part that shows that it has its data."""
PICTURES = os.environ.get("RHUMBLINE_SCREENSHOTS")


async def picture(page: Page, name: str) -> None:
    """Write a picture for the guide, if pictures are wanted."""
    if PICTURES:
        await page.screenshot(path=Path(PICTURES, f"console-{name}.png"))


async def open_page(browser: Browser, url: str, *, dark: bool = False, phone: bool = False) -> Page:
    """Open the console in a window of its own."""
    context = await browser.new_context(
        color_scheme="dark" if dark else "light",
        viewport=PHONE if phone else SIZE,  # type: ignore[arg-type]
    )
    page = await context.new_page()
    await page.goto(url)
    return page


async def test_the_console_opens_in_a_browser(tmp_path: Path) -> None:
    try:
        await see_the_first_page(tmp_path)
    except NotInstalledError as error:
        pytest.skip(str(error))


@pytest.mark.long
async def test_regions_streams_and_outages_are_shown_live(tmp_path: Path) -> None:
    try:
        await see_everything(tmp_path)
    except NotInstalledError as error:
        pytest.skip(str(error))


async def see_the_first_page(tmp_path: Path) -> None:
    """Open the console, and wait for its first sample."""
    (tmp_path / "cluster").mkdir()
    async with web_browser(tmp_path) as browser, three_regions(tmp_path / "cluster") as (*_, url):
        page = await open_page(browser, url)
        await expect(page.locator(".region")).to_have_count(3)


async def see_everything(tmp_path: Path) -> None:
    """Look at every page, in light and dark, wide and narrow, while a bookie fails."""
    (tmp_path / "cluster").mkdir()
    async with (
        web_browser(tmp_path) as browser,
        three_regions(tmp_path / "cluster", lasts_s=240, allows_actions=True) as (
            cluster,
            client,
            url,
        ),
    ):
        faults: list[str] = []
        page = await open_page(browser, url)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith(url) else faults.append(one.url))
        async with written(cluster, client):
            found = await see_regions(page, cluster)
            found += await see_streams(page)
        found += await see_a_stream(page, client)
        found += await see_durability(page)
        found += await see_operations(page, cluster)
        assert faults == [], "errors of the page, or requests to other hosts"
        found += await see_other_screens(browser, url)
        found += await see_refusals(page, url)
        assert found == [], "reported by axe"


@asynccontextmanager
async def written(
    cluster: LocalCluster, client: Client, region: str = "oslo"
) -> AsyncIterator[None]:
    """Write to a stream through a proxy in a region until the block ends."""
    await client.namespace().create_stream("payments")
    is_over = False

    async def write() -> None:
        async with (
            cluster.client(region, namespace="shop") as near,
            write_proxy(near) as proxy,
            connect(f"grpc://{proxy.address}", namespace="shop") as application,
            application.writer("payments") as writer,
        ):
            while not is_over:
                await writer.append(b"paid")
                await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        yield
        is_over = True


async def see_regions(page: Page, cluster: LocalCluster) -> list[str]:
    """A bookie is stopped, and the page shows it without being loaded again."""
    await expect(page.locator("#connection")).to_have_text("live")
    await expect(page.locator(".region")).to_have_count(3)
    await expect(page.locator('.region .server[data-mode="writable"]')).to_have_count(6)
    gone = next(local for local in cluster.bookies if local.region == "oslo")
    assert gone.bookie is not None
    name = gone.bookie.bookie_id
    await gone.bookie.aclose()
    await expect(page.locator(f'[data-server="{name}"]')).to_have_attribute("data-mode", "down")
    await expect(page.locator(".alerts")).to_contain_text(name)
    written = page.locator(".region .server.written")
    # The console surveys ledgers less often where that takes long.
    live = written.and_(page.locator('[data-mode="writable"]'))
    await expect(live).to_have_count(3, timeout=120_000)
    await expect(page.locator(".link", has_text="adds")).to_have_count(1)  # from oslo to rome
    await picture(page, "regions")
    found = await serious_faults(page)
    await page.get_by_role("button", name="oslo, open").press("Enter")
    await expect(page.get_by_role("region", name="Servers in oslo")).to_be_visible()
    await page.get_by_role("button", name="Show all").press("Enter")
    await page.get_by_role("link", name="Skip to the page").press("Enter")
    await expect(page.locator("main")).to_be_focused()
    return found


async def see_streams(page: Page) -> list[str]:
    """Streams are searched with the keyboard, and a link opens one."""
    await page.get_by_role("link", name="Streams").press("Enter")
    await page.get_by_label("Search").fill("nothing")
    await expect(page.get_by_text("No match")).to_be_visible()
    await page.get_by_label("Search").fill("shop/")
    payments = page.locator("tbody tr", has_text="payments")
    await expect(payments).to_contain_text(re.compile(r"/ [0-9.]+ ms"))  # of its appends
    rate = payments.locator("td").first
    await expect(rate).to_have_text(re.compile(r"[0-9]"))  # known from the second reading on
    await picture(page, "streams")
    found = await serious_faults(page)
    await page.get_by_label("Search").fill("ORD")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody")).to_contain_text("50")
    await page.get_by_role("link", name="shop/orders").press("Enter")
    return found


async def see_a_stream(page: Page, client: Client) -> list[str]:
    """The copies are in three regions; the live tail pauses without missing a record."""
    await expect(page.locator(".places li")).to_have_count(3)
    await expect(page.locator("#tail-status")).to_contain_text("passed")
    async with client.writer("orders") as writer:
        await writer.append(b"seen at once")
        await expect(page.locator("#lines")).to_contain_text("seen at once")
        await page.get_by_role("button", name="Pause").click()
        await writer.append(b"while paused")
        await page.get_by_label("Filter").fill("PAUSED")
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator("#lines")).to_contain_text("while paused")
        await expect(page.locator("#lines li:visible")).to_have_count(1)
        await page.get_by_label("Filter").fill("")
        await expect(page.locator("#lines li:visible")).to_have_count(2)
        await expect(page.locator(".segment")).to_have_count(2)
        await expect(page.locator("#tail-status")).to_contain_text("after its append")
        await picture(page, "stream")
        await page.get_by_role("button", name="Trace 2:1:0").click()
        await expect(page.locator(".step")).to_have_count(5)
        await expect(page.locator("#trace")).to_contain_text("holds it")
        await page.locator("#trace").scroll_into_view_if_needed()
        await picture(page, "trace")
    return await serious_faults(page)


async def see_durability(page: Page) -> list[str]:
    """The loss of two regions is asked about, with the mouse and with the keyboard."""
    await page.get_by_role("link", name="Durability").click()
    await page.locator('[data-lose="bonn"]').click()
    await page.locator('[data-lose="rome"]').press("Enter")
    await expect(page.locator("#verdict")).to_contain_text("bonn, rome")
    await expect(page.locator("#verdict")).to_have_attribute("data-verdict", "bad")
    await expect(page.get_by_role("link", name="shop/orders")).to_be_visible()
    await picture(page, "durability")
    return await serious_faults(page)


async def see_operations(page: Page, cluster: LocalCluster) -> list[str]:
    """A bookie is drained after a confirmation, and the page says what its data waits for."""
    await page.get_by_role("link", name="Operations").click()
    alert = page.locator(".card", has_text="RhumblineBookieDown").first
    await alert.locator("summary").click()
    await expect(alert.locator(".runbook")).to_contain_text("Meaning")
    in_rome = (local.bookie for local in cluster.bookies if local.region == "rome")
    bookies = [bookie for bookie in in_rome if bookie is not None]
    chosen = max(bookies, key=lambda bookie: int(bookie.statistics()["ledgers"]))
    name = chosen.bookie_id
    await page.get_by_role("button", name=f"Drain {name}").click()
    await expect(page.get_by_role("dialog")).to_contain_text("gets no new data from now on")
    await picture(page, "confirmation")
    found = await serious_faults(page)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.locator("[data-drain]")).to_have_count(0)
    await page.get_by_role("button", name=f"Drain {name}").press("Enter")
    await page.locator("#confirm").click()
    await expect(page.locator("#action-status")).to_contain_text("Done")
    await page.locator("#cancel").press("Enter")
    await expect(page.locator(f'[data-drain="{name}"]')).to_contain_text("no repair process")
    await page.evaluate("scrollTo(0, 0)")
    await picture(page, "operations")
    return found + await serious_faults(page)


async def see_other_screens(browser: Browser, url: str) -> list[str]:
    """In dark colors and on a phone nothing is wider than the screen."""
    found = []
    for dark, phone in ((True, False), (False, True)):
        page = await open_page(browser, url, dark=dark, phone=phone)
        for address, part in PAGES.items():
            await page.goto(f"{url}#/{address}")
            await expect(page.locator(part).first).to_be_visible()
            await picture(page, f"{'phone' if phone else 'dark'}-{address.partition('?')[0]}")
            found += await serious_faults(page)
            assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        await page.context.close()
    return found


async def see_refusals(page: Page, url: str) -> list[str]:
    """Visitors without permission or token are told so, and a lost server is shown as such."""
    refused = {"principal": "ann", "sees_cluster": False, "may_act": False}
    await page.route("**/api/session", lambda route: route.fulfill(json=refused))
    await page.goto(f"{url}#/regions")
    await page.reload()
    await expect(page.get_by_text("Not permitted")).to_be_visible()
    await picture(page, "forbidden")
    found = await serious_faults(page)
    await page.unroute("**/api/session")
    unknown = {"code": "unauthorized", "error": "the caller is unknown"}
    await page.route("**/api/session", lambda route: route.fulfill(status=401, json=unknown))
    await page.reload()
    await expect(page.get_by_label("Token")).to_be_focused()
    await picture(page, "signed-out")
    found += await serious_faults(page)
    await page.unroute("**/api/session")
    await page.get_by_label("Token").fill("a token")
    await page.get_by_label("Token").press("Enter")
    await expect(page.locator(".region")).to_have_count(3)
    await page.route("**/api/**", lambda route: route.abort())
    await page.reload()
    await expect(page.locator("#connection")).to_have_text("disconnected")
    await picture(page, "disconnected")
    found += await serious_faults(page)
    await page.unroute("**/api/**")
    await expect(page.locator(".region")).to_have_count(3)
    return found
