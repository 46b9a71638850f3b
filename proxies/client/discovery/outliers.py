"""Proxies that fail in a row are avoided for a bounded time (rule PRX-52). Pure."""

from random import Random

from .config import DiscoveryConfig

_DOUBLINGS_MAX = 16


class _Failures:
    """The failures of one proxy since its last success."""

    __slots__ = ("count", "until")

    def __init__(self) -> None:
        self.count = 0
        self.until = 0.0
        """End of the time for which it is avoided, in seconds; 0: it is not."""


class Outliers:
    """The failures of all proxies of a client. Times are in seconds of the caller's clock."""

    def __init__(self, config: DiscoveryConfig, random: Random) -> None:
        self.ejected_count = 0
        """Number of times that a proxy was ejected."""
        self._config = config
        self._random = random
        self._failures: dict[str, _Failures] = {}

    def failed(self, address: str, now: float) -> int:
        """Count a failure. Returns the milliseconds for which the proxy is avoided; 0: it is not,
        or it was already."""
        found = self._failures.setdefault(address, _Failures())
        found.count += 1
        beyond = found.count - self._config.eject_failures
        if beyond < 0 or now < found.until:
            return 0
        pause_ms = min(self._config.eject_ms << min(beyond, _DOUBLINGS_MAX),
                       self._config.eject_ms_max)  # fmt: skip
        pause_ms = int(pause_ms * (0.75 + self._random.random() / 4))
        found.until = now + pause_ms / 1000
        self.ejected_count += 1
        return pause_ms

    def succeeded(self, address: str) -> bool:
        """Forget the failures of a proxy. Returns whether it was ejected."""
        found = self._failures.pop(address, None)
        return found is not None and found.until > 0

    def is_ejected(self, address: str, now: float) -> bool:
        """Return whether a proxy is avoided."""
        found = self._failures.get(address)
        return found is not None and now < found.until

    def keep(self, addresses: frozenset[str]) -> None:
        """Forget the proxies that are not among ``addresses``."""
        for address in [one for one in self._failures if one not in addresses]:
            del self._failures[address]
