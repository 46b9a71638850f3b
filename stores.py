"""The two kinds of stores below a log: metadata stores and cold stores, opened by URI."""

from .backends.open_store import open_store
from .coldstore.stores.open_store import open_cold_store
from .core.runtime.cold_store import ColdStore, ObjectStat
from .core.runtime.metadata_store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Put,
    Session,
    Value,
    Watch,
)

__all__ = [
    "open_store",
    "MetadataStore",
    "Session",
    "Value",
    "Watch",
    "Check",
    "Create",
    "Put",
    "Delete",
    "open_cold_store",
    "ColdStore",
    "ObjectStat",
]
