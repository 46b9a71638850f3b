"""The client for programs without asyncio. Every call waits for its result."""

from .client.sync_api.sync_client import SyncClient, SyncReader, SyncWriter, connect
from .client.sync_api.sync_namespace import SyncNamespace, SyncNamespaces, SyncSubscriptions
from .client.sync_api.sync_topics import SyncMember, SyncRecordMember, SyncTopics, SyncTopicWriter

__all__ = [
    "connect",
    "SyncClient",
    "SyncWriter",
    "SyncReader",
    "SyncNamespace",
    "SyncNamespaces",
    "SyncSubscriptions",
    "SyncTopics",
    "SyncTopicWriter",
    "SyncMember",
    "SyncRecordMember",
]
