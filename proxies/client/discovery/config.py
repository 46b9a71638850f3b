"""Settings of the discovery of proxies."""

from dataclasses import dataclass

from ....core.runtime.settings import check_settings, setting
from ...proxy_uri import check_server


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """Settings with which a client of proxies finds them. Raises ConfigurationError."""

    refresh_ms: int = setting(
        30_000,
        "Mean interval between reads of the list of proxies; a failing proxy causes an earlier "
        "one. 0: the client uses the addresses that it was given, and those that proxies name.",
        low=0,
    )
    eject_failures: int = setting(
        2,
        "Number of failures in a row after which a proxy is only used if no other one responds.",
        low=1,
    )
    eject_ms: int = setting(
        5_000,
        "Time for which a failing proxy is avoided. It doubles with each failure that follows.",
        low=1,
        not_above="eject_ms_max",
    )
    eject_ms_max: int = setting(60_000, "Maximum of that time.", low=1)
    dns_server: str = setting(
        "",
        "host:port of the DNS server to call, e.g. 127.0.0.1:8600 for a local Consul; the host may "
        "be a name, which the system resolves. Empty: the system's. This setting, and lookups of "
        "SRV records, require rhumbline[dns].",
        check=check_server,
    )

    def __post_init__(self) -> None:
        check_settings(self, "discovery")
