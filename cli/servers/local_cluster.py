"""A cluster of several regions in this process, on real sockets and files, with emulated WAN links.

Every bookie listens on loopback. Clients in another region connect to a relay, whose address is the
one advertised to that region; it delays both directions by half the round trip between the two
regions. The metadata store is a file on this host: it is neither delayed nor cut off.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ...backends.open_store import open_store
from ...client.connect import Client
from ...client.system_runtime import system_runtime
from ...core.bookie.bookie import Bookie
from ...core.bookie.config import BookieConfig
from ...core.ledger.config import LedgerConfig
from ...core.metadata.bookie_directory import BookieDirectory
from ...core.metadata.cluster_layout import initialise_cluster
from ...core.metadata.declared_regions import (
    add_region,
    declare_regions,
    read_declared_regions,
)
from ...core.runtime.metadata_store import MetadataStore
from ...server.bookie_host import format_bookie, is_formatted, running_bookie, status_address
from ...tls.protection import UNPROTECTED, Protection
from .relay import Relay

HOST = "127.0.0.1"
_RACK = "default"
_MIB = 1 << 20

SMALL_BOOKIES = BookieConfig(
    log_file_bytes=32 * _MIB, read_only_below_bytes=256 * _MIB, reserve_below_bytes=64 * _MIB
)
"""Settings of a bookie that shares its disk with others, so that it reserves less space."""


@dataclass(slots=True)
class LocalBookie:
    """A bookie of the cluster, with its directory and the relays of the other regions."""

    name: str
    region: str
    directory: Path
    relays: dict[str, Relay] = field(default_factory=dict)
    bookie: Bookie | None = None
    status_address: str = ""
    """host:port of its status server; empty if it has none."""


class LocalCluster:
    """A cluster below ``root`` with ``bookies_per_region`` bookies in each of ``regions``.

    ``round_trips_ms`` maps pairs of regions, in either order; a pair without a value has no relay.
    Data that an earlier cluster left in ``root`` is reused.
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
        protection: Protection = UNPROTECTED,
    ) -> None:
        self.regions = tuple(regions)
        self.metadata_uri = f"sqlite://{root.resolve()}/metadata.db"
        self._round_trips_ms = dict(round_trips_ms)
        self._config = config or SMALL_BOOKIES
        self._serves_status = serves_status
        self.protection = protection
        self._closing = AsyncExitStack()
        self.bookies = [
            LocalBookie(f"{region}-{number}", region, root / "bookies" / f"{region}-{number}")
            for region in regions
            for number in range(1, bookies_per_region + 1)
        ]

    async def start(self) -> None:
        """Open the metadata store and start every bookie, formatting the new ones."""
        store = await open_store(self.metadata_uri)
        self._closing.push_async_callback(store.close)
        await initialise_cluster(store, system_runtime().random)
        await self._declare_regions(store)
        for local in self.bookies:
            await self._start_bookie(local, store)

    def client(self, region: str, *, namespace: str, ledger: LedgerConfig | None = None) -> Client:
        """Return a client in ``region``, for use with ``async with``."""
        return Client(
            self.metadata_uri,
            namespace=namespace,
            region=region,
            ledger=ledger,
            runtime=system_runtime(None, self.protection.connecting),
        )

    def cut(self, region: str) -> None:
        """Cut ``region`` off: hold all traffic between it and the others, in both directions."""
        for relay in self._links_of(region):
            relay.cut()

    def heal(self, region: str) -> None:
        """Reconnect ``region``: deliver the held traffic and everything after it."""
        for relay in self._links_of(region):
            relay.heal()

    async def aclose(self) -> None:
        """Stop bookies and relays, in reverse order of start. Safe to repeat."""
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
            for local in self.bookies
            for client_region, relay in local.relays.items()
            if region in (local.region, client_region)
        ]

    async def _declare_regions(self, store: MetadataStore) -> None:
        """Declare the regions, beside those of an earlier cluster in the same directory."""
        directory = BookieDirectory(store)
        try:
            earlier = await read_declared_regions(store) or [
                region
                for bookie in await directory.all_known()
                if (region := await directory.region_of(bookie)) is not None
            ]
            await declare_regions(store, directory, earlier or self.regions)
            for name in self.regions:
                await add_region(store, name)
        finally:
            directory.close()

    async def _start_bookie(self, local: LocalBookie, store: MetadataStore) -> None:
        if not is_formatted(local.directory):
            await format_bookie(
                local.directory, store, name=local.name, region=local.region, rack=_RACK
            )
        addresses = []
        for client_region in self.regions:
            delay_ms = self._one_way_ms(client_region, local.region)
            if delay_ms is not None:
                relay = local.relays[client_region] = Relay(None, delay_ms=delay_ms)
                self._closing.push_async_callback(relay.aclose)
                addresses.append((client_region, f"{HOST}:{await relay.start(HOST)}"))
        local.bookie = await self._closing.enter_async_context(
            running_bookie(
                local.directory,
                store,
                replace(self._config, advertised_addresses=tuple(addresses)),
                host=HOST,
                port=0,
                status_port=0 if self._serves_status else None,
                protection=self.protection,
            )
        )
        if (found := await status_address(store, local.bookie.bookie_id)) is not None:
            local.status_address = f"{found[0]}:{found[1]}"
        for relay in local.relays.values():
            relay.target = (HOST, local.bookie.port)

    def _one_way_ms(self, client_region: str, region: str) -> float | None:
        for pair in ((client_region, region), (region, client_region)):
            if pair in self._round_trips_ms:
                return self._round_trips_ms[pair] / 2
        return None
