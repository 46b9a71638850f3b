"""The ports of the servers: fixed defaults for each kind."""

PORTS = {"bookie": 3281, "write-proxy": 4281, "read-proxy": 4281, "console": 8290}
"""The default of ``--port`` by kind of server."""

STATUS_PORTS = {
    "bookie": 8281,
    "write-proxy": 8282,
    "read-proxy": 8283,
    "repair": 8284,
    "archive": 8285,
}
"""The default of ``--status-port`` by kind of server."""


def port_of(kind: str, chosen: int | None) -> int:
    """Return the port that was chosen, or the default of this kind of server."""
    return PORTS[kind] if chosen is None else chosen


def status_port_of(kind: str, chosen: int | None) -> int:
    """Return the port that was chosen, or the default of this kind of server."""
    return STATUS_PORTS[kind] if chosen is None else chosen
