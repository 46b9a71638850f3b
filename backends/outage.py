"""Logs once when a metadata store becomes unavailable, and once when it is available again.

Open streams continue without it, so the outage might otherwise go unnoticed.
"""

import asyncio

from ..core.runtime.event_log import EventLog

_LOG = EventLog(__name__)

CONSEQUENCE = (
    "open streams continue; opening streams, new segments, bookie replacements and registrations "
    "wait"
)


class Outage:
    """The availability of a store as seen by the calls of one handle."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._calls = 0

    def failed(self, uri: str, error: Exception) -> None:
        """Record a call without a response; log the first one."""
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
            _LOG.warning(
                "metadata store unavailable", uri=uri, error=error, consequence=CONSEQUENCE
            )
        self._calls += 1

    def answered(self, uri: str) -> None:
        """Record a successful call; log it if it ends an outage."""
        if self._since is not None:
            spent_s = asyncio.get_running_loop().time() - self._since
            _LOG.info(
                "metadata store available",
                uri=uri,
                outage_ms=round(spent_s * 1000),
                failed_calls=self._calls,
            )
            self._since = None
            self._calls = 0
