"""Regions of bookies in this process, on real sockets and files, with wide-area links between.

Every bookie listens on loopback. Whoever views it from another region is told another address,
that of a relay which delays both directions by half the round trip between the two regions. The
metadata store is a file of this host: it is neither delayed nor cut.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ...backends.open_store import open_store
from ...chaos.relay import Relay
from ...client.connect import Client
from ...client.system_runtime import system_runtime
from ...core.bookie.bookie import Bookie
from ...core.bookie.config import BookieConfig
from ...core.ledger.config import LedgerConfig
from ...core.metadata.cluster_layout import initialise_cluster
from ...core.runtime.metadata_store import MetadataStore
from ...server.bookie_host import format_bookie, is_formatted, running_bookie

HOST = "127.0.0.1"
_RACK = "default"
_MIB = 1 << 20

SMALL_BOOKIES = BookieConfig(
    log_file_bytes=32 * _MIB, read_only_below_bytes=256 * _MIB, reserve_below_bytes=64 * _MIB
)
"""Several bookies share one disk here, so that each reserves less of it."""


@dataclass(slots=True)
class LocalBookie:
    """One bookie of the cluster: where its data is, and how each region reaches it."""

    name: str
    region: str
    directory: Path
    relays: dict[str, Relay] = field(default_factory=dict)
    bookie: Bookie | None = None


class LocalCluster:
    """A cluster below ``root``: ``bookies_per_region`` bookies in each of ``regions``.

    ``round_trips_ms`` by (region, region), in either order; none: no relay between the two. What an
    earlier cluster left in ``root`` is used again.
    """

    def __init__(
        self,
        root: Path,
        regions: Sequence[str],
        *,
        bookies_per_region: int,
        round_trips_ms: Mapping[tuple[str, str], int],
        config: BookieConfig | None = None,
        serves_status: bool = False,
    ) -> None:
        self.regions = tuple(regions)
        self.metadata_uri = f"sqlite://{root.resolve()}/metadata.db"
        self._round_trips_ms = dict(round_trips_ms)
        self._config = config or SMALL_BOOKIES
        self._serves_status = serves_status
        self._closing = AsyncExitStack()
        self.bookies = [
            LocalBookie(f"{region}-{number}", region, root / "bookies" / f"{region}-{number}")
            for region in regions
            for number in range(1, bookies_per_region + 1)
        ]

    async def start(self) -> None:
        """Opens the metadata store and starts every bookie, formatting those that are new."""
        store = await open_store(self.metadata_uri)
        self._closing.push_async_callback(store.close)
        await initialise_cluster(store, system_runtime().random)
        for item in self.bookies:
            await self._start_bookie(item, store)

    def client(self, region: str, *, namespace: str, ledger: LedgerConfig | None = None) -> Client:
        """A client that stands in ``region``; to be used with ``async with``."""
        return Client(self.metadata_uri, namespace=namespace, region=region, ledger=ledger)

    def cut(self, region: str) -> None:
        """Nothing passes between ``region`` and the others any more, in either direction."""
        for relay in self._links_of(region):
            relay.cut()

    def heal(self, region: str) -> None:
        """Passes on what was held, and everything from now on."""
        for relay in self._links_of(region):
            relay.heal()

    async def aclose(self) -> None:
        """Stops bookies and relays, newest first. Safe to repeat."""
        await self._closing.aclose()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _links_of(self, region: str) -> list[Relay]:
        return [
            relay
            for item in self.bookies
            for viewer, relay in item.relays.items()
            if region in (item.region, viewer)
        ]

    async def _start_bookie(self, item: LocalBookie, store: MetadataStore) -> None:
        if not is_formatted(item.directory):
            await format_bookie(
                item.directory, store, name=item.name, region=item.region, rack=_RACK
            )
        addresses = []
        for viewer in self.regions:
            delay_ms = self._one_way_ms(viewer, item.region)
            if delay_ms is not None:
                relay = item.relays[viewer] = Relay(None, delay_ms=delay_ms)
                self._closing.push_async_callback(relay.aclose)
                addresses.append((viewer, f"{HOST}:{await relay.start(HOST)}"))
        item.bookie = await self._closing.enter_async_context(
            running_bookie(
                item.directory,
                store,
                replace(self._config, advertised_addresses=tuple(addresses)),
                host=HOST,
                port=0,
                status_port=0 if self._serves_status else None,
            )
        )
        for relay in item.relays.values():
            relay.target = (HOST, item.bookie.port)

    def _one_way_ms(self, viewer: str, region: str) -> float | None:
        for pair in ((viewer, region), (region, viewer)):
            if pair in self._round_trips_ms:
                return self._round_trips_ms[pair] / 2
        return None
