"""Byte counters and latencies of the link to one bookie."""

from .add_latency import AddLatency


class LinkTraffic:
    """Bytes sent to and received from one bookie, and latencies, over all its connections."""

    __slots__ = ("latency", "received_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self.latency = AddLatency()
