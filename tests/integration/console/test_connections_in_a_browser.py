"""The connection of a page to the console, in Chromium: hidden tabs, a full console, failures."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, TimeoutError, expect

from rhumbline.cli.console import routes
from rhumbline.cli.console.cluster.cluster_watch import ClusterWatch
from rhumbline.tests.integration.console.test_console_in_a_browser import PAGES, open_page
from rhumbline.tests.integration.console.test_console_over_http import three_regions
from rhumbline.tests.support.processes.web_browser import serious_faults, web_browser
from rhumbline.tests.support.servers.installs import NotInstalledError

pytestmark = [pytest.mark.needs_server("chromium"), pytest.mark.long]
expect.set_options(timeout=30_000)

HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Page, Any, str]]:
    """Run a cluster with a console, and open it in a browser."""
    try:
        (folder / "cluster").mkdir()
        async with (
            web_browser(folder) as browser,
            three_regions(folder / "cluster", lasts_s=120) as (_, _, url),
        ):
            yield await open_page(browser, url), browser, url
    except NotInstalledError as error:
        pytest.skip(str(error))


async def test_a_hidden_tab_asks_for_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as (page, _, url):
        await expect(page.locator("#connection")).to_have_text("live")
        for address in ("regions", "streams", "operations"):
            await page.goto(f"{url}#/{address}")
            await expect(page.locator(PAGES[address]).first).to_be_visible()
            async with page.expect_event("requestfailed", lambda one: "/api/events" in one.url):
                await page.evaluate(HIDE, True)
            with pytest.raises(TimeoutError, match="Timeout"):
                await page.wait_for_event("request", timeout=4_000)
            async with page.expect_event("response", lambda one: "/api/events" in one.url):
                await page.evaluate(HIDE, False)
            await expect(page.locator("#connection")).to_have_text("live")


async def test_a_page_without_a_place_says_so_and_gets_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "FOLLOWERS_MAX", 1)
    async with opened(tmp_path) as (first, browser, url):
        await expect(first.locator("#connection")).to_have_text("live")
        second = await open_page(browser, url)
        await expect(second.locator("#notice")).to_contain_text("1 pages are open already")
        await expect(second.locator("#connection")).to_have_text("no data")
        assert await serious_faults(second) == []
        await first.close()
        await expect(second.locator("#connection")).to_have_text("live")
        await expect(second.locator("#notice")).to_be_hidden()


async def test_failures_are_shown_and_what_was_read_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (page, _, url):
        with monkeypatch.context() as patched:
            patched.setattr(ClusterWatch, "_facts", _fail)
            await expect(page.locator("#notice")).to_contain_text("ValueError: a bug")
            await expect(page.locator("#connection")).to_have_text("no data")
        await expect(page.locator("#connection")).to_have_text("live")
        await expect(page.locator("#notice")).to_be_hidden()
        await page.goto(f"{url}#/streams")
        await expect(page.locator("tbody")).to_contain_text("shop/orders")

        async def refuse(route: Route) -> None:
            document = {"code": "unavailable", "error": "store away"}
            await route.fulfill(status=503, body=json.dumps(document))

        await page.route("**/api/streams**", refuse)
        await expect(page.locator(".warning")).to_contain_text("store away")
        await expect(page.locator("tbody")).to_contain_text("shop/orders")
        assert await serious_faults(page) == []
        await page.unroute("**/api/streams**")
        await expect(page.locator(".warning")).to_be_hidden()


async def _fail(*_: object) -> None:
    raise ValueError("a bug")
