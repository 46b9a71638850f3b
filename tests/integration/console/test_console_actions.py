"""Actions of the console need its flag, a grant and a confirmation, and are audited."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx

from rhumbline.access.grant_store import change_grants
from rhumbline.cli.console.serving import running_console
from rhumbline.client.connect import Client
from rhumbline.security.audit import AuditEvent
from rhumbline.security.grants import make_grant
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.support.security.certificates import settings_for
from rhumbline.tests.support.security.secured_cluster import NAMESPACE, STREAM, secured
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.protection import Protection

TARGET = f"stream:{NAMESPACE}/{STREAM}"


class Kept:
    """Keeps audit events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


async def granted(client: Client, *actions: str) -> None:
    """Grant the cluster to ann, and wait until the console knows."""
    one = make_grant("ann", list(actions), "cluster")
    await change_grants(client.store, lambda table: table.granted(one))
    await asyncio.sleep(0.5)


class Visitor:
    """A browser of ann, whose requests follow a grant within half a second."""

    def __init__(self, browser: httpx.AsyncClient, server_name: str) -> None:
        self._browser = browser
        self._name: dict[str, Any] = {"extensions": {"sni_hostname": server_name}}

    async def may_act(self) -> bool:
        """Return what the console says about the permission."""
        found = (await self._browser.get("/api/session", **self._name)).json()["may_act"]
        return bool(found)

    async def plan(self, kind: str, target: str) -> httpx.Response:
        """Ask what an action would do."""
        given = {"kind": kind, "target": target}
        return await self._browser.get("/api/action", params=given, **self._name)

    async def act(self, kind: str, target: str, basis: str, **headers: str) -> httpx.Response:
        """Confirm an action."""
        given = {"kind": kind, "target": target, "basis": basis}
        return await self._browser.post("/api/action", json=given, headers=headers, **self._name)


async def test_an_action_needs_a_grant_and_a_confirmation_and_is_audited(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(static_token_line("ann", "token-of-ann", [Role.CLIENT]) + "\n")
    security = SecuritySettings(
        static_tokens=str(tokens), access_control=True, grants_refresh_ms=100
    )
    kept = Kept()
    async with asyncio.timeout(60), secured(tmp_path) as made:
        tls = settings_for(made.authority, "console", Role.PROXY, proxy_client_certificates=False)
        protection = Protection(TlsCredentials(tls), security, kept)
        bookie = made.cluster.bookies[0].bookie
        assert bookie is not None
        place = f"bookie:{bookie.bookie_id}"
        async with (
            made.cluster.client("oslo", namespace=NAMESPACE) as client,
            running_console(
                client,
                host="127.0.0.1",
                port=0,
                interval_s=1,
                protection=protection,
                allows_actions=True,
            ) as url,
            httpx.AsyncClient(
                base_url=url,
                verify=ssl.create_default_context(cafile=made.authority.certificate_file),
                headers={"Authorization": "Bearer token-of-ann"},
                timeout=40,
            ) as browser,
        ):
            visitor = Visitor(browser, tls.server_name)
            await granted(client, "read")
            assert not await visitor.may_act()
            assert (await visitor.plan("undrain", place)).status_code == 403
            assert (await visitor.act("undrain", place, "")).status_code == 403, "rule CON-5"
            await granted(client, "administer")
            assert await visitor.may_act()
            await undrain(visitor, place)
            await roll(visitor, client)
    found = [(one.principal, one.action, one.resource, one.result.value) for one in kept.events]
    assert ("ann", "console undrain", place, "refused") in found, "rule CON-8"
    assert ("ann", "console undrain", place, "done") in found
    assert ("ann", "console roll", TARGET, "done") in found
    assert ("ann", "console roll", TARGET, "failed") in found


async def undrain(visitor: Visitor, place: str) -> None:
    """Act on a bookie; requests that a page of another site can make are refused."""
    assert (await visitor.plan("explode", place)).status_code == 400
    assert (await visitor.plan("drain", "bookie:nobody")).status_code == 400
    planned = (await visitor.plan("undrain", place)).json()
    assert "gets new data again" in planned["effects"][0]
    for foreign in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "text/plain"},
    ):
        refused = await visitor.act("undrain", place, planned["basis"], **foreign)
        assert refused.status_code == 403, "rule CON-6"
    assert (await visitor.act("undrain", place, planned["basis"])).status_code == 200


async def roll(visitor: Visitor, client: Client) -> None:
    """Roll a stream under its writer; what is not as it was confirmed is not done."""
    async with client.writer(STREAM) as writer:
        await writer.append(b"one")
        planned = (await visitor.plan("roll", TARGET)).json()
        changed = await visitor.act("roll", TARGET, "another basis")
        assert changed.status_code == 400, "rule CON-7"
        assert "look again" in changed.json()["error"]
        done = await visitor.act("roll", TARGET, planned["basis"])
        assert "segment 1 of" in done.json()["message"]
        stale = await visitor.act("roll", TARGET, planned["basis"])
        assert stale.status_code == 400, "rule CON-7: another segment is open now"
    assert (await client.namespace().describe(STREAM)).segments[0].is_completed
    healthy = (await visitor.plan("repair", TARGET)).json()
    assert "nothing to repair" in healthy["obstacles"][0]
    assert (await visitor.act("repair", TARGET, healthy["basis"])).status_code == 400
