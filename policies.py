"""Policies of namespaces and streams: quorum, flushing, rolling, retention, regions."""

from .core.log.policy import FlushPolicy, StreamPolicy
from .core.protocol.compression import Codec
from .core.protocol.quorum import Quorum, QuorumView

__all__ = [
    "StreamPolicy",
    "FlushPolicy",
    "Codec",
    "Quorum",
    "QuorumView",
]
