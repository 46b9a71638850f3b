"""A real browser for tests: Chromium of the machine, or of the distribution's packages."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from rhumbline.tests.support.servers.installs import axe_script, chromium_folder

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FONTS = """\
<?xml version="1.0"?>
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir>
<selectfont><rejectfont><glob>*Serif*</glob></rejectfont></selectfont></fontconfig>
"""


@asynccontextmanager
async def web_browser(folder: Path) -> AsyncIterator[Browser]:
    """Start a browser without a screen, until the block ends; ``folder`` is for its files.

    Raises NotInstalledError.
    """
    program, environment = _program(folder)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            env={**os.environ, **environment},
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        try:
            yield browser
        finally:
            await browser.close()


async def serious_faults(page: Page) -> list[str]:
    """Return what axe reports as serious or critical on a page."""
    await page.evaluate(axe_script())
    found = await page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']}: {node['html']}: {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def _program(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the program, and the variables with which it finds its libraries and fonts."""
    for name in _PROGRAMS:
        if (found := shutil.which(name)) is not None:
            return found, {}
    root = chromium_folder()
    fonts = folder / "fonts.conf"
    fonts.write_text(_FONTS.format(fonts=root / "usr/share/fonts", cache=folder / "fonts"))
    libraries = sorted(
        {str(path.parent) for path in (root / "usr/lib").glob("*-linux-gnu/**/*.so*")}
    )
    environment = {"LD_LIBRARY_PATH": os.pathsep.join(libraries), "FONTCONFIG_FILE": str(fonts)}
    return str(root / "usr/lib/chromium/chromium"), environment
