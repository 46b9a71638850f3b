"""A program that holds an ephemeral node: ``session_holder URI PATH TTL_MS``.

It prints ``held``, prints ``lost`` when its session is lost, and exits at the end of its standard
input.
"""

import asyncio
import sys

from ..open_store import open_store


async def hold(uri: str, path: str, ttl_ms: int) -> None:
    """Hold an ephemeral node at ``path`` until the end of standard input."""
    loop = asyncio.get_running_loop()
    store = await open_store(uri)
    try:
        session = await store.session(ttl_ms)
        await store.create(path, b"held", ephemeral=session)
        session.on_lost(lambda: print("lost", flush=True))
        print("held", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], sys.argv[2], int(sys.argv[3])))
