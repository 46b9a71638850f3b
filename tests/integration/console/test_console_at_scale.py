"""The console of a large cluster in Chromium: time to first paint, delay of updates, search, cost.

The times are printed. `make bench-console` runs it with 102 bookies and 10,000 streams, and
searches 100,000; CONSOLE_SIZE sets bookies, streams with segments, and names. CONSOLE_CLUSTER is a
folder in which the cluster is kept for the next run; without it, each run makes the cluster again.
"""

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from rhumbline.chaos.managed_process import ManagedProcess, python_command, rhumbline_command
from rhumbline.client.connect import Client
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.regions.states import PlacementState, PlacementStates
from rhumbline.tests.integration.console.large_cluster import NAMESPACE, REGIONS, name_of
from rhumbline.tests.integration.console.test_console_in_a_browser import SIZE, open_page
from rhumbline.tests.support.processes.web_browser import web_browser
from rhumbline.tests.support.servers.installs import NotInstalledError

pytestmark = [
    pytest.mark.needs_server("chromium"),
    pytest.mark.long,
    pytest.mark.timeout(1_800),
]

BOOKIES, WRITTEN, NAMES = map(int, os.environ.get("CONSOLE_SIZE", "12 200 1000").split())
ROUNDS = int(os.environ.get("CONSOLE_ROUNDS", "3"))
COST_S = float(os.environ.get("CONSOLE_COST_S", "5"))
_TICKS = os.sysconf("SC_CLK_TCK")

WHEN_SEEN = """async ([selector, attribute, value]) => {
  const isSeen = () => document.querySelector(selector)?.getAttribute(attribute) === value;
  while (!isSeen()) await new Promise((resolve) => requestAnimationFrame(resolve));
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  return Date.now();
}"""
"""Waits until an attribute has a value and is painted, and returns the time of day in ms."""

FIRST_PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime"""


class Cost(NamedTuple):
    """The use of a process over a time."""

    cores: float
    mib: int


class Figures:
    """Measured values, printed as one row each."""

    def __init__(self) -> None:
        self.rows: dict[str, object] = {"bookies": BOOKIES, "streams": WRITTEN, "names": NAMES}

    def note(self, name: str, values_ms: list[float]) -> None:
        """Note the median and the largest of some times."""
        self.rows[name] = {
            "median_ms": round(statistics.median(values_ms)),
            "max_ms": round(max(values_ms)),
        }

    def show(self) -> None:
        """Print all of them."""
        for name, value in self.rows.items():
            print(f"{name:45} {json.dumps(value)}")
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


async def test_the_pages_of_a_large_cluster_show_it_and_its_changes(tmp_path: Path) -> None:
    await _measure(tmp_path, _processes(tmp_path))


async def test_the_pages_of_many_servers_and_streams_that_are_fed(tmp_path: Path) -> None:
    """As above, but without the many bookies, which need most of a small machine themselves."""
    await _measure(tmp_path, _fed(tmp_path))


async def _measure(
    folder: Path, running: AbstractAsyncContextManager[tuple[ManagedProcess, str]]
) -> None:
    try:
        async with web_browser(folder) as browser, running as (console, uri):
            url = console.find(r"(http://\S+/)")
            assert url is not None
            figures = Figures()
            await _see_pages(browser, url, figures)
            async with Client(uri, namespace=NAMESPACE, region=REGIONS[0]) as client:
                await _see_changes(browser, url, client, figures)
            await _search(browser, url, figures)
            await _see_costs(browser, url, console.pid, figures)
            figures.show()
    except NotInstalledError as error:
        pytest.skip(str(error))


@asynccontextmanager
async def _fed(folder: Path) -> AsyncIterator[tuple[ManagedProcess, str]]:
    """Run a console that is fed what it shows."""
    (folder / "cluster").mkdir()
    sizes = map(str, (BOOKIES, NAMES))
    console = ManagedProcess(
        "console",
        python_command("tests.integration.console.fed_console", str(folder / "cluster"), *sizes),
        folder / "console.log",
        cwd=folder,
        ready="http",
        ready_s_max=600,
    )
    with console:
        yield console, f"sqlite://{folder / 'cluster'}/metadata.db"


@asynccontextmanager
async def _processes(folder: Path) -> AsyncIterator[tuple[ManagedProcess, str]]:
    """Run the cluster and a console, each in a process."""
    root = os.environ.get("CONSOLE_CLUSTER", "")
    if not root:
        root = str(folder / "cluster")
        (folder / "cluster").mkdir()
    uri = f"sqlite://{root}/metadata.db"
    sizes = map(str, (BOOKIES, WRITTEN, NAMES))
    cluster = ManagedProcess(
        "cluster",
        python_command("tests.integration.console.large_cluster", root, *sizes),
        folder / "cluster.log",
        cwd=folder,
        ready="ready",
        ready_s_max=1_200,
    )
    arguments = ("console", "-u", uri, "-n", NAMESPACE, "--region", REGIONS[0], "--port", "0")
    console = ManagedProcess(
        "console", rhumbline_command(*arguments), folder / "console.log", cwd=folder, ready="http"
    )
    began = time.monotonic()
    with cluster:
        print(f"\nthe cluster was made in {time.monotonic() - began:.0f} s")
        with console:
            yield console, uri


async def _see_pages(browser: Browser, url: str, figures: Figures) -> None:
    """Open the page of regions, first while nobody follows, then beside another page."""

    async def open_once() -> tuple[float, float]:
        began = time.time() * 1000
        context = await browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
        page = await context.new_page()
        await page.goto(url)
        shown = await page.evaluate(WHEN_SEEN, [".region", "data-state", "open"])
        painted = await page.evaluate(FIRST_PAINT)
        await expect(page.locator("[data-server]")).not_to_have_count(0)
        await context.close()
        return float(painted), shown - began

    alone = [await open_once() for _ in range(ROUNDS)]
    other = await open_page(browser, url)
    await expect(other.locator("#connection")).to_have_text("live")
    beside = [await open_once() for _ in range(ROUNDS)]
    await other.context.close()
    for name, found in (("first page", alone), ("further page", beside)):
        figures.note(f"{name}: first paint", [painted for painted, _ in found])
        figures.note(f"{name}: regions with data", [shown for _, shown in found])


async def _see_changes(browser: Browser, url: str, client: Client, figures: Figures) -> None:
    """Close a bookie to new data again and again, and wait until the page has painted it."""
    page = await open_page(browser, url)
    server = page.locator(f'[data-server^="{REGIONS[0]}-1@"]')
    await expect(server).to_be_visible()
    name = await server.get_attribute("data-server")
    bookie = BookieId(str(name))
    delays = []
    for number in range(2 * ROUNDS):
        state = PlacementState.DISALLOWED if number % 2 == 0 else None
        mode = "closed" if state else "writable"
        seen = asyncio.create_task(
            page.evaluate(WHEN_SEEN, [f'[data-server="{name}"]', "data-mode", mode])
        )
        await asyncio.sleep(0.13 * number % 1)  # at any time between two samples
        await client.directory.states.change(partial(_ordered, bookie, state))
        began = time.time() * 1000
        async with asyncio.timeout(60):
            delays.append(await seen - began)
    figures.note("update: from the change to the painted page", delays)
    await page.context.close()


def _ordered(
    bookie: BookieId, state: PlacementState | None, known: PlacementStates
) -> PlacementStates:
    return known.with_bookie(bookie, state)


async def _search(browser: Browser, url: str, figures: Figures) -> None:
    """Search all names, in the server and in the page."""
    wanted = name_of(NAMES - 1)
    async with httpx.AsyncClient(base_url=url, timeout=60) as server:

        async def ask(text: str) -> None:
            found = (await server.get("/api/streams", params={"search": text})).json()
            assert found["total"] == NAMES
            assert [one["stream"] for one in found["streams"]] == ([wanted] if text else shown)

        shown = [name_of(number) for number in range(25)]
        figures.note("search: first one, all names are read", [await _timed(lambda: ask(wanted))])
        figures.note(
            "search: one name", [await _timed(lambda: ask(wanted)) for _ in range(4 * ROUNDS)]
        )
        figures.note(
            "list: first 25 streams", [await _timed(lambda: ask("")) for _ in range(4 * ROUNDS)]
        )
    page = await open_page(browser, f"{url}#/streams")
    await expect(page.locator("tbody tr")).to_have_count(25)
    times = []
    for number in range(2 * ROUNDS):
        one = NAMES - 1 - number
        times.append(await _timed(partial(_type, page, name_of(one))))
    figures.note("search: from the key to the painted row", times)
    await page.context.close()


async def _type(page: Page, name: str) -> None:
    await page.get_by_label("Search").fill(name)
    await page.evaluate(WHEN_SEEN, ["tbody tr", "data-key", f"{NAMESPACE}/{name}"])


async def _see_costs(browser: Browser, url: str, pid: int, figures: Figures) -> None:
    """Measure the console's process while no, one and ten pages are open."""
    pages: list[Page] = []
    for wanted in (0, 1, 10):
        while len(pages) < wanted:
            pages.append(await open_page(browser, url))
            await expect(pages[-1].locator("#connection")).to_have_text("live")
        await asyncio.sleep(1)
        before, began = _cpu_s(pid), time.monotonic()
        await asyncio.sleep(COST_S)
        cores = (_cpu_s(pid) - before) / (time.monotonic() - began)
        figures.rows[f"console with {wanted} pages"] = Cost(round(cores, 2), _mib(pid))._asdict()
    for page in pages:
        await page.context.close()


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
