"""Byte counters of the link to one bookie."""


class LinkTraffic:
    """Bytes sent to and received from one bookie, over all connections of its link."""

    __slots__ = ("received_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
