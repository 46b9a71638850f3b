"""Parts for packages that add a metadata store or a cold store.

A package names the opener of its store in an entry point of the group
``rhumbline.metadata_stores`` or ``rhumbline.cold_stores``; the name of the entry point is the
scheme of its URIs. ``MetadataStoreOpener`` and ``ColdStoreOpener`` are the types of openers;
``MovableStore`` and ``rhumbline.stores.ColdStore`` are the interfaces of what they open.

The smallest metadata store is a ``DocumentStore`` over a ``Document``: a file, an object or a row
that can be replaced by compare-and-set. A store with nodes of its own extends ``StoreBase`` and
plans its transactions with ``TransactionPlan``, so that the rules of the tree need not be written
again; if its server has no sessions, ``Leases`` provides them. A cold store over a blocking library
runs its calls by ``BlockingCalls``. The fixtures in ``rhumbline.testing`` test the result.
"""

from .backends.document_store import Document, DocumentStore
from .backends.leases import Lease, LeaseRows, Leases, LeaseSession, Owner
from .backends.migration_fence import FENCE_PATH, FenceState, MovableStore, decode_fence
from .backends.open_store import MetadataStoreOpener
from .backends.store_base import StoreBase, StoreSession
from .backends.transaction_plan import Change, Node, TransactionPlan, versions_of
from .backends.uri import Host, StoreUri
from .backends.watches import Watches
from .coldstore.stores.blocking_calls import BlockingCalls
from .coldstore.stores.open_store import ColdStoreOpener
from .core.runtime.cold_store import OBJECT_BYTES_MAX, check_key
from .core.runtime.metadata_store import Operation, Version

__all__ = [
    "MetadataStoreOpener",
    "StoreUri",
    "Host",
    "MovableStore",
    "FenceState",
    "FENCE_PATH",
    "decode_fence",
    "Document",
    "DocumentStore",
    "StoreBase",
    "StoreSession",
    "Operation",
    "Version",
    "Node",
    "Change",
    "TransactionPlan",
    "versions_of",
    "Watches",
    "Leases",
    "LeaseRows",
    "LeaseSession",
    "Lease",
    "Owner",
    "ColdStoreOpener",
    "BlockingCalls",
    "OBJECT_BYTES_MAX",
    "check_key",
]
