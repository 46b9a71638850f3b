"""Logs once when a metadata store becomes unavailable, and once when it is available again.

Open streams continue without it, so the outage might otherwise go unnoticed.
"""

import asyncio
import logging

_LOG = logging.getLogger(__name__)

BLOCKED_OPERATIONS = "opening streams, new segments, bookie replacements and registrations wait"


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
                "metadata store %s is unavailable: %s; open streams continue; %s",
                uri, error, BLOCKED_OPERATIONS,
            )  # fmt: skip
        self._calls += 1

    def answered(self, uri: str) -> None:
        """Record a successful call; log it if it ends an outage."""
        if self._since is not None:
            spent_s = asyncio.get_running_loop().time() - self._since
            _LOG.warning(
                "metadata store %s is available again after %.1f s; %d calls failed",
                uri, spent_s, self._calls,
            )  # fmt: skip
            self._since = None
            self._calls = 0
