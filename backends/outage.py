"""Says once when a metadata store does not answer, and once when it does again.

Streams that are open go on without it, so nobody might notice otherwise.
"""

import asyncio
import logging

_LOG = logging.getLogger(__name__)

WHAT_WAITS = "opening streams, new segments, replacing bookies and registrations wait"


class Outage:
    """What the calls of one handle say of its store."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._calls = 0

    def failed(self, uri: str, error: Exception) -> None:
        """A call ended without an answer."""
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
            _LOG.warning(
                "metadata store %s is away: %s; open streams go on, %s", uri, error, WHAT_WAITS
            )
        self._calls += 1

    def answered(self, uri: str) -> None:
        """A call was answered."""
        if self._since is not None:
            spent_s = asyncio.get_running_loop().time() - self._since
            _LOG.warning(
                "metadata store %s answers again after %.1f s; %d calls got no answer",
                uri, spent_s, self._calls,
            )  # fmt: skip
            self._since = None
            self._calls = 0
