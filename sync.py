"""The client for programs without asyncio. Every call waits for its result."""

from .client.sync_client import SyncClient, SyncReader, SyncWriter, connect

__all__ = [
    "connect",
    "SyncClient",
    "SyncWriter",
    "SyncReader",
]
