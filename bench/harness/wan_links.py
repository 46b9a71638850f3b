"""The wide-area links of a benchmark, in a process of their own: run with ``python -m``.

Standard input takes one JSON object a line, each is answered by one on standard output:
``{"open": [name, ...]}`` (a relay each; answers their ports), ``{"target": name, "port": n}``,
``{"delay_ms": {name: ms, ...}}`` (each way, from now on), ``{"cut": [name, ...]}``,
``{"heal": [name, ...]}``. It ends with its input.
"""

import asyncio
import json
import sys
from typing import Any

from ...chaos.relay import Relay
from ...client.system_runtime import run

HOST = "127.0.0.1"


class Wan:
    """Relays by name, and what is said to them."""

    def __init__(self) -> None:
        self._relays: dict[str, Relay] = {}

    async def answer(self, said: dict[str, Any]) -> dict[str, Any]:
        """Does what one line says."""
        ports = {}
        for name in said.get("open", ()):
            relay = self._relays[name] = Relay(None, delay_ms=0)
            ports[name] = await relay.start(HOST)
        if "target" in said:
            self._relays[said["target"]].target = (HOST, said["port"])
        for name, delay_ms in said.get("delay_ms", {}).items():
            relay = self._relays[name]
            relay.delay_ms = relay.back_ms = delay_ms
        for name in said.get("cut", ()):
            self._relays[name].cut()
        for name in said.get("heal", ()):
            self._relays[name].heal()
        return {"ports": ports}


async def main() -> None:
    """Serves standard input until it ends."""
    wan = Wan()
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await wan.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    run(main())
