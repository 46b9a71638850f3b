"""Settings of a proxy process (rule PRX-16)."""

from dataclasses import dataclass

from ..core.runtime.settings import check_settings, setting
from .proxy_uri import check_addresses, check_server


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """Settings of the write proxy and the read proxy of one process.

    Raises ConfigurationError.
    """

    advertised_address: str = setting(
        "",
        "host:port for clients, if it differs from the listening address.",
        check=check_server,
    )
    advertised_addresses: tuple[tuple[str, str], ...] = setting(
        (),
        "Pairs (region, host:port): the address under which clients of that region connect.",
        check=check_addresses,
    )
    operator_port: int = setting(
        0,
        "Port of a listener for operators. If it is set, administrative calls and server "
        "reflection are served there only, and the port for clients refuses them. 0: there is no "
        "such listener, and the port for clients serves everything.",
        low=0,
        high=65535,
    )
    operator_host: str = setting(
        "",
        "Address of the listener for operators, such as one in a network for operators only. "
        "Empty: that of serve.host.",
        needs="operator_port",
    )
    operator_address: str = setting(
        "",
        "host:port to which operators of all regions connect, if it differs from the listening "
        "address. Empty: operator_port of operator_host, or of the host for clients.",
        check=check_server,
        needs="operator_port",
    )
    session_ttl_ms: int = setting(
        3_000,
        "TTL of the proxy's session in the metadata store. When the proxy has been out of contact "
        "for this long, other proxies may take over its streams. Probes find a lost proxy earlier; "
        "the TTL counts when a whole region is lost, and for a proxy that is short of CPU.",
        low=1,
    )
    probe_ms: int = setting(
        100,
        "Interval between the probes that the proxy sends to each proxy that it watches. 0 "
        "disables probing: a lost proxy is then replaced when its session expires.",
        low=0,
    )
    probe_peers_max: int = setting(
        3,
        "Maximum number of proxies of its region that the proxy watches, and that watch it.",
        low=1,
    )
    silence_ms_max: int = setting(
        300,
        "A watched proxy that does not respond for this long, neither here nor to another proxy, "
        "is lost: others take over its streams without waiting for its session to expire. The "
        "time is prolonged while responses are slow or this process is short of CPU.",
        low=1,
    )
    acquire_ms_max: int = setting(
        5_000,
        "Maximum time to take over a stream. Record sets that arrive meanwhile wait; when it "
        "expires, they are refused with a retryable error.",
        low=1,
    )
    acquires_max: int = setting(
        16,
        "Maximum number of streams taken over concurrently; further takeovers are queued.",
        low=1,
    )
    balance_ms: int = setting(
        5_000,
        "Interval between checks for streams that another proxy should serve, and between reports "
        "of the load. A stream that fails two checks in a row is handed over. 0 disables "
        "rebalancing.",
        low=0,
    )
    balance_tolerance_percent: int = setting(
        25,
        "A proxy sheds streams when its load exceeds the mean of its region by this percentage, "
        "and until it exceeds the mean by half of it.",
        low=1,
        high=1_000,
    )
    balance_stay_ms: int = setting(
        60_000,
        "Minimum time that a stream stays at a proxy before it is moved because of the load.",
        low=0,
        high=3_600_000,
    )
    balance_moves_max: int = setting(
        16,
        "Maximum number of streams of a region that are moved because of the load in one interval "
        "of balance_ms. 0 disables balancing by load.",
        low=0,
    )
    home_window_ms: int = setting(
        600_000,
        "Time over which the owner of a stream counts its records by the region of the client, "
        "before it suggests another home region.",
        low=1_000,
    )
    home_share_percent_min: int = setting(
        60,
        "Minimum share of the records that a region must write to be suggested as the home region.",
        low=51,
        high=100,
    )
    home_records_per_s_min: float = setting(
        1.0, "Minimum rate of a stream for which a home region is suggested.", low=0
    )
    home_moves_per_hour: int = setting(
        0,
        "Maximum number of streams per hour whose home region this proxy moves to the suggested "
        "region. 0: it only suggests.",
        low=0,
    )
    handover_ms_max: int = setting(
        10_000,
        "Maximum time to close a stream when it is released or the proxy stops gracefully. After "
        "it, the next owner finds the end of the stream by recovery.",
        low=1,
    )
    streams_max: int = setting(
        10_000,
        "Maximum number of streams that the proxy owns; takeovers beyond it are refused.",
        low=1,
    )
    waiting_bytes_max: int = setting(
        8 << 20,
        "Maximum size of the record sets that wait for the takeover of one stream; more are "
        "refused.",
        low=1,
    )
    session_bytes_max: int = setting(
        32 << 20,
        "Maximum size of the record sets of one append call that have no result yet. When it is "
        "exceeded, the proxy stops reading the call.",
        low=1,
    )
    stream_records_per_s: int = setting(
        0, "Append rate limit of each stream; 0 means no limit.", low=0
    )
    stream_bytes_per_s: int = setting(
        0, "Append rate limit of each stream; 0 means no limit.", low=0
    )
    records_per_s: int = setting(
        0, "Append rate limit of the whole proxy; 0 means no limit.", low=0
    )
    bytes_per_s: int = setting(0, "Append rate limit of the whole proxy; 0 means no limit.", low=0)
    cache_bytes_max: int = setting(
        256 << 20,
        "Maximum memory of the read proxy's cache of entries, over all streams. Readers that are "
        "less than this apart share what is read from bookies and archives.",
        low=1,
    )
    catch_up_fetches_max: int = setting(
        32,
        "Maximum number of concurrent fetches for readers that are behind the end of their stream, "
        "over all streams; more wait in turn. Each may hold some MiB and the time of a bookie or "
        "an archive. Readers at the end of a stream do not wait.",
        low=1,
    )
    shared_bytes_max: int = setting(
        256 << 10,
        "Maximum size of the record sets of one principal that have no result yet, while other "
        "principals append much through the proxy as well; beside principals that append little, "
        "it is 64 KiB. Beyond it, the calls of that principal are not read.",
        low=1,
    )
    connection_idle_ms: int = setting(
        600_000,
        "Time without a call after which the proxy closes a connection; clients connect again when "
        "they need it.",
        low=1_000,
    )
    readers_max: int = setting(
        10_000, "Maximum number of concurrent read calls; more are refused.", low=1
    )

    def __post_init__(self) -> None:
        check_settings(self, "proxy")
