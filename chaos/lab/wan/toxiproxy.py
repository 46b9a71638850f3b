"""Manages toxiproxy: one link per (client region, server), with distance and fault toxics.

Each link has its own listening port, which the server advertises to that region. Distance is a
latency toxic in each direction of half the round trip. Faults add further toxics with other names.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core.protocol.errors import UnavailableError
from ..ports import free_port
from .processes import Program, find_program

VERSION = "v2.12.0"
UP, DOWN = "upstream", "downstream"
BOTH = (UP, DOWN)
"""The directions from the client to the server, and back."""


def toxiproxy_binary(servers: Path) -> Path:
    """Return the path of the toxiproxy server. Raises ConfigurationError if it is not installed."""
    hint = (
        f"go install github.com/Shopify/toxiproxy/v2/cmd/server@{VERSION}, named toxiproxy-server"
    )
    return find_program("toxiproxy-server", servers / f"toxiproxy-{VERSION}" / "server", hint=hint)


@dataclass(frozen=True, slots=True)
class ToxiproxyLink:
    """The link from one region to one server; the ``viewer`` "*" stands for all regions."""

    viewer: str
    server: str
    server_region: str
    port: int
    upstream_port: int

    @property
    def name(self) -> str:
        """The name of the link in toxiproxy."""
        return f"{self.viewer}-to-{self.server}"

    @property
    def address(self) -> str:
        """The address that clients connect to, as host:port."""
        return f"127.0.0.1:{self.port}"


class Toxiproxy:
    """The toxiproxy process and its links."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.port = free_port()
        self.links: list[ToxiproxyLink] = []
        command = [str(binary), "-host", "127.0.0.1", "-port", str(self.port)]
        self.program = Program(
            "toxiproxy",
            "",
            command,
            folder / "toxiproxy.log",
            ready=self.is_ready,
            environ={"LOG_LEVEL": "error"},
        )
        self._toxics: dict[str, list[tuple[ToxiproxyLink, str]]] = {}

    async def start(self) -> None:
        """Start the process and wait until it serves. Raises UnavailableError."""
        await asyncio.to_thread(self.program.start)

    def is_ready(self) -> bool:
        """Return whether the process serves."""
        try:
            self._request("GET", "/version", None)
        except UnavailableError:
            return False
        return True

    async def link(
        self, viewer: str, server: str, server_region: str, upstream_port: int
    ) -> ToxiproxyLink:
        """Create a link without any toxic."""
        link = ToxiproxyLink(viewer, server, server_region, free_port(), upstream_port)
        body = {
            "name": link.name,
            "listen": link.address,
            "upstream": f"127.0.0.1:{upstream_port}",
            "enabled": True,
        }
        await self._call("POST", "/proxies", body)
        self.links.append(link)
        return link

    async def add_distance(
        self, link: ToxiproxyLink, *, rtt_ms: float, jitter_ms: float, kib_per_s: int
    ) -> None:
        """Add a permanent delay and bandwidth limit to a link."""
        latency = {"latency": round(rtt_ms / 2), "jitter": round(jitter_ms / 2)}
        for stream in BOTH:
            await self._add(link, f"far-{stream}", "latency", stream, latency)
            await self._add(link, f"wide-{stream}", "bandwidth", stream, {"rate": kib_per_s})

    async def add_toxics(
        self,
        fault: str,
        links: Iterable[tuple[ToxiproxyLink, tuple[str, ...]]],
        kind: str,
        attributes: dict[str, int],
        *,
        toxicity: float = 1.0,
    ) -> None:
        """Add the toxic of a fault to the given directions of links."""
        for link, streams in links:
            for stream in streams:
                name = f"{fault}-{stream}"
                await self._add(link, name, kind, stream, attributes, toxicity)
                self._toxics.setdefault(fault, []).append((link, name))

    async def remove_toxics(self, fault: str) -> None:
        """Remove all toxics of a fault. Safe to repeat."""
        for link, name in self._toxics.pop(fault, []):
            await self._call("DELETE", f"/proxies/{link.name}/toxics/{name}")

    async def enable(self, links: Iterable[ToxiproxyLink], *, is_on: bool) -> None:
        """Enable or disable links; disabling breaks connections and refuses new ones."""
        for link in links:
            await self._call("POST", f"/proxies/{link.name}", {"enabled": is_on})

    async def _add(
        self,
        link: ToxiproxyLink,
        name: str,
        kind: str,
        stream: str,
        attributes: dict[str, int],
        toxicity: float = 1.0,
    ) -> None:
        body = {
            "name": name,
            "type": kind,
            "stream": stream,
            "toxicity": toxicity,
            "attributes": attributes,
        }
        await self._call("POST", f"/proxies/{link.name}/toxics", body)

    async def _call(self, method: str, path: str, body: Any = None) -> None:  # noqa: ANN401 - JSON
        await asyncio.to_thread(self._request, method, path, body)

    def _request(self, method: str, path: str, body: Any) -> None:  # noqa: ANN401 - JSON
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                response.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise UnavailableError(f"toxiproxy: {method} {path}: {text}") from error
        except OSError as error:
            raise UnavailableError(f"toxiproxy did not respond: {error}") from error
