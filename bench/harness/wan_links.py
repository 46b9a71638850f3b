"""A process that runs the wide-area links of a benchmark; started with ``python -m``.

It reads one JSON command per line from standard input and answers each with one JSON object on
standard output. Commands: ``{"open": [name, ...]}`` (opens relays and returns their ports),
``{"target": name, "port": n}``, ``{"delay_ms": {name: ms, ...}}`` (for each direction),
``{"cut": [name, ...]}``, ``{"heal": [name, ...]}``, ``{"counts": true}`` (the bytes that each relay
has forwarded from its server). The process ends when its input is closed.
"""

import asyncio
import json
import sys
from typing import Any

from ...cli.servers.relay import Relay
from ...client.system_runtime import run

HOST = "127.0.0.1"


class LinkProcess:
    """The relays by name, and the commands that change them."""

    def __init__(self) -> None:
        self._relays: dict[str, Relay] = {}

    async def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute one command and return its reply."""
        ports = {}
        for name in command.get("open", ()):
            relay = self._relays[name] = Relay(None, delay_ms=0)
            ports[name] = await relay.start(HOST)
        if "target" in command:
            self._relays[command["target"]].target = (HOST, command["port"])
        for name, delay_ms in command.get("delay_ms", {}).items():
            relay = self._relays[name]
            relay.delay_ms = relay.back_ms = delay_ms
        for name in command.get("cut", ()):
            self._relays[name].cut()
        for name in command.get("heal", ()):
            self._relays[name].heal()
        reply: dict[str, Any] = {"ports": ports}
        if command.get("counts"):
            reply["received_bytes"] = {
                name: relay.bytes_from_server for name, relay in self._relays.items()
            }
        return reply


async def main() -> None:
    """Execute commands from standard input until it is closed."""
    links = LinkProcess()
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await links.execute(json.loads(line))), flush=True)


if __name__ == "__main__":
    run(main())
