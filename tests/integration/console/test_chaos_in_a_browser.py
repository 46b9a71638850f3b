"""The page Chaos in Chromium: a run is started, its trace is stepped through and played.

With RHUMBLINE_SCREENSHOTS, the pictures of the guide are written into that folder.
"""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from rhumbline.tests.integration.console.test_console_in_a_browser import open_page, picture
from rhumbline.tests.integration.console.test_console_over_http import three_regions
from rhumbline.tests.support.processes.web_browser import serious_faults, web_browser
from rhumbline.tests.support.servers.installs import NotInstalledError

pytestmark = [pytest.mark.needs_server("chromium"), pytest.mark.long]


async def test_runs_are_replayed_with_a_time_slider(tmp_path: Path) -> None:
    try:
        (tmp_path / "cluster").mkdir()
        async with (
            web_browser(tmp_path) as browser,
            three_regions(tmp_path / "cluster", lasts_s=240) as (_, _, url),
        ):
            faults: list[str] = []
            page = await open_page(browser, f"{url}#/chaos")
            page.on("pageerror", lambda error: faults.append(str(error)))
            found = await see_a_scenario(page)
            found += await see_the_keyboard(page)
            found += await see_a_planted_bug(page)
            found += await see_other_screens(browser, url)
            found += await see_refusals(page, url)
            assert faults == [], "errors of the page"
            assert found == [], "reported by axe"
    except NotInstalledError as error:
        pytest.skip(str(error))


async def see_a_scenario(page: Page) -> list[str]:
    """A cut region is drawn at the time of the fault, and the verdict says that all held."""
    await expect(page.get_by_text("No run yet")).to_be_visible()
    await picture(page, "chaos-empty")
    found = await serious_faults(page)
    await expect(page.get_by_label("Run", exact=True)).to_have_value("region-cut-off")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    await picture(page, "chaos-running")
    await expect(page.locator("#run-verdict")).to_have_attribute("data-good", "true")
    await expect(page.locator(".link.cut")).to_have_count(2)
    await expect(page.locator('[data-link="east-north"].cut')).to_have_count(0)
    await expect(page.locator("#told")).to_contain_text("cut-region west")
    return found + await serious_faults(page)


async def see_the_keyboard(page: Page) -> list[str]:
    """Events are stepped through, played, filtered and found without a mouse."""
    slider, clock = page.locator("#time"), page.locator("#clock")
    await slider.focus()
    before = await clock.text_content()
    await page.keyboard.press("ArrowRight")
    await expect(clock).not_to_have_text(before or "")
    await expect(page.locator('#trace [aria-current="step"]')).to_have_count(1)
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press(" ")
    await expect(page.locator("#play")).to_have_text("Pause")
    await expect(page.locator(".arrow")).not_to_have_count(len(await legend_arrows(page)))
    await page.keyboard.press(" ")
    await expect(page.locator("#play")).to_have_text("Play")
    await picture(page, "chaos-messages")
    await page.keyboard.press("Home")
    await page.keyboard.press("f")
    await expect(page.locator("#trace [aria-current]")).to_contain_text("cut-region west")
    await page.get_by_label("Server", exact=True).select_option("bookie-west-0")
    for kind in ("message", "path", "fault"):
        await page.locator(f'[data-kind="{kind}"]').press("Enter")
    await expect(page.locator("#trace li.of-message")).to_have_count(0)
    await page.locator("#forward").press("Enter")
    await expect(page.locator("#trace [aria-current]")).to_contain_text("bookie-west-0")
    await picture(page, "chaos-filtered")
    return await serious_faults(page)


async def legend_arrows(page: Page) -> list[str]:
    """Return the arrows of the legend."""
    return await page.locator(".legend .arrow").all_text_contents()


async def see_a_planted_bug(page: Page) -> list[str]:
    """A planted bug is labelled as such, and the checkers find it."""
    await page.get_by_role("button", name="Planted bug").press("Enter")
    await page.get_by_label("Run", exact=True).select_option("b10")
    await page.get_by_role("button", name="Run", exact=True).press("Enter")
    await expect(page.locator("#run-verdict")).to_have_attribute("data-good", "false")
    await expect(page.locator("#run-verdict")).to_contain_text("on purpose")
    await expect(page.locator("#run-verdict h2")).to_contain_text("V1")
    await picture(page, "chaos-planted-bug")
    return await serious_faults(page)


async def see_other_screens(browser: Browser, url: str) -> list[str]:
    """The last replay is shown to other visitors, in light and dark colors and on a phone."""
    found = []
    for dark, phone in ((False, False), (True, False), (False, True)):
        page = await open_page(browser, f"{url}#/chaos", dark=dark, phone=phone)
        await expect(page.locator(".world-map")).to_be_visible()
        await page.locator("#to-fault").click()
        await page.locator(".player").scroll_into_view_if_needed()
        await picture(page, f"chaos-{'phone' if phone else 'dark' if dark else 'player'}")
        found += await serious_faults(page)
        assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        await page.context.close()
    return found


async def see_refusals(page: Page, url: str) -> list[str]:
    """A missing simulator and a missing permission are told."""
    missing = {"is_installed": False}
    await page.route("**/api/chaos", lambda route: route.fulfill(json=missing))
    await page.reload()
    await expect(page.get_by_text("Not installed")).to_be_visible()
    found = await serious_faults(page)
    await page.unroute("**/api/chaos")
    refusal = {"code": "permission-denied", "error": "ann may not read the cluster"}
    await page.route("**/api/chaos", lambda route: route.fulfill(status=403, json=refusal))
    await page.reload()
    await expect(page.get_by_text("Not permitted")).to_be_visible()
    return found + await serious_faults(page)
