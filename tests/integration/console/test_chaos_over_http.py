"""The simulator's runs in the console: start, cancel, replay, limits and refusals."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from rhumbline.cli.console.chaos import chaos_routes, chaos_run
from rhumbline.tests.integration.console.test_console_over_http import three_regions

RUN = "/api/chaos/run"


async def ended(browser: httpx.AsyncClient) -> dict[str, Any]:
    """Wait until the console's run has ended, and return its status."""
    while True:
        found: dict[str, Any] = (await browser.get(RUN)).json()
        if found["state"] != "running":
            return found
        await asyncio.sleep(0.1)


async def accepted(browser: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    """Start a run as soon as the process of the last one has ended."""
    while True:
        if (await browser.post(RUN, json=wanted)).status_code == 202:
            return
        await asyncio.sleep(0.05)


def order(kind: str, name: str, seed: int = 1) -> dict[str, Any]:
    return {"kind": kind, "name": name, "seed": seed}


async def test_runs_are_started_one_at_a_time_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        three_regions(tmp_path, lasts_s=240) as (_, _, url),
        httpx.AsyncClient(base_url=url, timeout=20) as browser,
    ):
        listed = (await browser.get("/api/chaos")).json()
        assert listed["is_installed"]
        assert "region-cut-off" in {one["name"] for one in listed["runs"]["scenario"]}
        assert all(one["about"] for kind in listed["runs"].values() for one in kind)
        assert (await browser.get(RUN)).json() == {"number": 0, "state": "none"}

        started = await browser.post(RUN, json=order("bug", "b10"))
        assert started.status_code == 202 and started.json()["state"] == "running"
        second = await browser.post(RUN, json=order("plan", "basic"))
        assert second.status_code == 503 and "in progress" in second.json()["error"], "rule CON-16"
        assert (await browser.get("/api/chaos/replay?number=1")).status_code == 400
        status = await ended(browser)
        assert status["state"] == "done", status
        found = (await browser.get("/api/chaos/replay?number=1")).json()["replay"]
        assert found["bug"]["name"] == "b10" and not found["verdict"]["is_good"]
        assert {one["id"] for one in found["verdict"]["problems"]} & {"V1"}
        assert found["events"] and found["servers"]

        await browser.post(RUN, json=order("plan", "swarm"))
        assert (await browser.delete(RUN)).json()["state"] == "cancelled"
        assert (await browser.get("/api/chaos/replay?number=2")).status_code == 400
        monkeypatch.setattr(chaos_run, "RUN_S_MAX", 0.2)
        await accepted(browser, order("plan", "swarm"))
        status = await ended(browser)
        assert status["state"] == "failed" and "ended after" in status["error"], "rule CON-16"


async def test_requests_to_run_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad: tuple[Any, ...] = (
        order("other", "basic"),
        order("plan", "unknown"),
        order("scenario", "../region-cut-off"),
        order("plan", "basic", -1),
        order("plan", "basic", 1_000_001),
        {**order("plan", "basic"), "seed": True},
        {"kind": "plan", "name": 1, "seed": 1},
        [],
        {"kind": "x" * 5000},
    )
    async with (
        three_regions(tmp_path) as (_, _, url),
        httpx.AsyncClient(base_url=url, timeout=20) as browser,
    ):
        for body in bad:
            assert (await browser.post(RUN, json=body)).status_code == 400, body
        form = await browser.post(RUN, content=b'{"kind": "plan", "name": "basic", "seed": 1}')
        assert form.status_code == 400 and "content type" in form.json()["error"], "rule CON-15"
        assert (await browser.get(RUN)).json()["state"] == "none"
        monkeypatch.setattr(chaos_routes, "is_lab_installed", lambda: False)
        assert (await browser.get("/api/chaos")).json() == {"is_installed": False}
        missing = await browser.post(RUN, json=order("plan", "basic"))
        assert missing.status_code == 503 and "not installed" in missing.json()["error"]
