"""The calls of a client to its metadata store."""

from ...client.connect import Client


def metadata_calls(client: Client) -> int:
    """Return the number of calls to the global metadata store so far."""
    calls = client.statistics()["metadata"]["calls"]
    return sum(count for counts in calls.values() for count in counts.values())
