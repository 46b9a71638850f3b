"""Machines, disks and traffic for a load, from measured unit costs. Pure arithmetic.

The unit costs are those of the pages "Measure" and "Why regions count", measured on two shared
cores with the interpreted form; the compiled form needs less. They show which resource a load is
short of, and do not replace a measurement on the machines to be bought.
"""

from dataclasses import dataclass
from math import ceil

from ..core.protocol.errors import InvalidArgumentError
from ..core.protocol.quorum import Quorum
from ..core.runtime.settings import check_settings, setting

_MS_MAX = 100 * 366 * 86_400_000
_SECONDS_PER_MONTH = 30 * 86_400
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """CPU seconds of the interpreted form."""

    bookie_per_byte: float = 3e-9
    """1 KiB, entries every 10 ms: 9.0 s for a million records on three bookies."""
    bookie_per_entry: float = 14e-6
    """1 KiB, 64 streams, one by one: 41 s for a million entries on three bookies."""
    bookie_per_sync: float = 136e-6
    """One record at a time: 150 microseconds for an entry with a sync of its own."""
    syncs_per_second_max: float = 1000.0
    """Groups of entries that a bookie syncs in a second, as each takes about a millisecond."""
    proxy_per_record: float = 33e-6
    """Producers that share no record set; 5 microseconds if all of a stream are in one process."""
    proxy_per_delivery: float = 1e-6
    """One stream to 5,000 readers."""


UNIT_COSTS = UnitCosts()


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a cluster: averages, and the factor by which the busiest time exceeds them."""

    records_per_second: float = setting(text="Records appended per second.", low=0.001, high=1e9)
    record_bytes: int = setting(text="Payload bytes of a record.", low=1, high=1 << 20)
    hot_retention_ms: int = setting(
        text="Time for which bookies keep records.", low=1000, high=_MS_MAX
    )
    streams: int = setting(1, "Streams that are written at the same time.", low=1, high=10_000_000)
    flush_ms: int = setting(10, "Flush period of the policy.", low=0, high=60_000)
    readers: float = setting(1.0, "How often each record is read.", low=0, high=1e6)
    through_proxies: bool = setting(True, "Producers and readers use proxies.")
    archive_retention_ms: int | None = setting(
        None, "Time for which the archive keeps records. none: no archive.", low=1000, high=_MS_MAX
    )
    archive_ratio: float = setting(
        1.0, "Bytes in the archive per payload byte.", low=0.001, high=10
    )
    peak: float = setting(2.0, "Load of the busiest time per average load.", low=1, high=1000)

    def __post_init__(self) -> None:
        check_settings(self, "load", InvalidArgumentError)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that runs a bookie or a proxy."""

    cores: int = setting(8, "CPU cores.", low=1, high=1024)
    disk_bytes: int = setting(1 << 40, "Size of the disks.", low=1 << 30, high=1 << 60)
    disk_bytes_per_second: int = setting(
        200 << 20, "Bytes that the disks write in a second.", low=1 << 20, high=1 << 40
    )
    network_bytes_per_second: int = setting(
        1 << 30, "Bytes that the network carries in a second.", low=1 << 20, high=1 << 40
    )
    used_fraction: float = setting(
        0.6, "Share of each resource that is used at the busiest time.", low=0.05, high=1.0
    )
    price_per_month: float = setting(0.0, "Price of a machine.", low=0, high=1e9)

    def __post_init__(self) -> None:
        check_settings(self, "machine", InvalidArgumentError)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices besides that of machines."""

    currency: str = setting("", "Name of the currency.")
    wan_per_gib: float = setting(0.0, "Traffic between regions.", low=0, high=1e6)
    archive_per_gib_month: float = setting(0.0, "Storage of archives.", low=0, high=1e6)

    def __post_init__(self) -> None:
        check_settings(self, "prices", InvalidArgumentError)


@dataclass(frozen=True, slots=True)
class MachineCount:
    """The number of machines of one kind, and what decides it."""

    machines: int
    limited_by: str
    cores: float
    """Cores in use at the busiest time, in all machines together."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The needs of a load. Rates are those of the busiest time, sizes and costs averages."""

    append_bytes_per_second: float
    entries_per_second: float
    hot_bytes: float
    archive_bytes: float
    wan_bytes_per_second: float
    wan_bytes_per_month: float
    bookies: MachineCount
    proxies: MachineCount
    machines_per_month: float
    wan_per_month: float
    archive_per_month: float

    @property
    def cost_per_month(self) -> float:
        """The sum of all costs."""
        return self.machines_per_month + self.wan_per_month + self.archive_per_month


def plan_load(
    load: Load,
    quorum: Quorum,
    wan_bytes_per_byte: float,
    machine: Machine,
    prices: Prices,
    *,
    regions: int = 1,
    costs: UnitCosts = UNIT_COSTS,
) -> LoadPlan:
    """Return what a load needs on machines of one kind, with these prices.

    ``wan_bytes_per_byte`` is that of a deployment plan: bytes between regions per byte written.
    Deliveries are counted within the region of the reader.
    """
    average = load.records_per_second * load.record_bytes
    written = average * load.peak
    entries = _entries_per_second(load)
    hot = average * quorum.write_quorum * load.hot_retention_ms / 1000
    archived = average * load.archive_ratio * (load.archive_retention_ms or 0) / 1000
    bookies = _bookies(load, quorum, entries, hot, machine, costs)
    proxies = _proxies(load, machine, costs, regions)
    wan_month = average * wan_bytes_per_byte * _SECONDS_PER_MONTH
    return LoadPlan(
        written,
        entries,
        hot,
        archived,
        written * wan_bytes_per_byte,
        wan_month,
        bookies,
        proxies,
        (bookies.machines + proxies.machines) * machine.price_per_month,
        wan_month / _GIB * prices.wan_per_gib,
        archived / _GIB * prices.archive_per_gib_month,
    )


def _entries_per_second(load: Load) -> float:
    """Return the entries at the busiest time: a stream has at most one in each flush period."""
    records = load.records_per_second * load.peak
    if load.flush_ms == 0:
        return records
    return min(records, load.streams * 1000 / load.flush_ms)


def _bookies(
    load: Load, quorum: Quorum, entries: float, hot: float, machine: Machine, costs: UnitCosts
) -> MachineCount:
    copies = quorum.write_quorum
    written = load.records_per_second * load.peak * load.record_bytes * copies
    reads = min(load.readers, 1.0) if load.through_proxies else load.readers  # one tail per stream
    delivered = written / copies * reads
    per_copy = entries * costs.bookie_per_entry * copies + written * costs.bookie_per_byte
    floor = quorum.ensemble_size
    count = floor
    for _ in range(64):  # more bookies sync more groups: repeat until the number does not change
        syncs = min(entries * copies, count * costs.syncs_per_second_max)
        cores = per_copy + syncs * costs.bookie_per_sync
        needs = {
            "the ensemble": float(floor),
            "CPU": cores / machine.cores,
            "disk space": hot / machine.disk_bytes,
            "disk bandwidth": 2 * written / machine.disk_bytes_per_second,  # log, sorted files
            "network": (written + delivered) / machine.network_bytes_per_second,
        }
        machines = {
            name: need if name == "the ensemble" else need / machine.used_fraction
            for name, need in needs.items()
        }
        limit = max(machines, key=lambda name: (machines[name], name == "the ensemble"))
        wanted = max(floor, ceil(machines[limit]))
        if wanted <= count:
            break
        count = wanted
    return MachineCount(count, limit, cores)


def _proxies(load: Load, machine: Machine, costs: UnitCosts, regions: int) -> MachineCount:
    if not load.through_proxies:
        return MachineCount(0, "no proxies", 0.0)
    records = load.records_per_second * load.peak
    cores = records * (costs.proxy_per_record + load.readers * costs.proxy_per_delivery)
    moved = records * load.record_bytes * (1 + load.readers)
    # A proxy is one process that uses one core.
    needs = {
        "two in each region": 2.0 * regions,
        "CPU": cores / machine.used_fraction,
        "network": moved / machine.network_bytes_per_second / machine.used_fraction,
    }
    limit = max(needs, key=lambda name: (needs[name], name == "two in each region"))
    return MachineCount(ceil(needs[limit]), limit, cores)
