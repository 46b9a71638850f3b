"""Watches a cluster: takes samples and measures what a snapshot has beyond them."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ....client.connect import Client
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.errors import RhumblineError, UnavailableError
from ...overview.bookies import BookieView
from ...top.sample import ClusterSample, Sampler
from .snapshot import ClusterFacts, snapshot, stale
from .survey import LedgerSurvey

_ROUND_TRIP_S_MAX = 1.0
_BOOKIES_ASKED = 3
"""Bookies of each region whose round trips are measured."""
_STREAMS_PER_SAMPLE = 24
"""Streams of a sample: it is taken every second, and they are its largest cost."""


class ClusterWatch:
    """Takes snapshots, each with the rates since the one before."""

    def __init__(self, client: Client, survey: LedgerSurvey) -> None:
        self._client = client
        self._survey = survey
        self._sampler = Sampler(client, _STREAMS_PER_SAMPLE)
        self._sample: ClusterSample | None = None
        self._snapshot: dict[str, Any] | None = None

    async def take(self) -> dict[str, Any]:
        """Return the present snapshot, or the last one if the metadata store does not respond.

        Raises UnavailableError while there is none.
        """
        try:
            now = await self._sampler.take()
            facts = await self._facts(now)
        except UnavailableError as error:
            if self._snapshot is None:
                raise
            return stale(self._snapshot, str(error))
        self._snapshot = snapshot(self._sample, now, facts)
        self._sample = now
        self._sampler.busiest = list(self._snapshot["streams"])
        return self._snapshot

    async def _facts(self, now: ClusterSample) -> ClusterFacts:
        client = self._client
        namespace = client.namespace()
        try:
            quorum = str((await namespace.policy()).quorum)
        except RhumblineError:  # the default namespace need not exist
            quorum = None
        by_bookie, by_region = self._open_ledgers({one.bookie: one.region for one in now.bookies})
        return ClusterFacts(
            client.instance_id,
            namespace.name,
            quorum,
            client.region,
            await self._round_trips(now.bookies),
            by_bookie,
            by_region,
        )

    def _open_ledgers(
        self, regions: Mapping[BookieId, Region | None]
    ) -> tuple[Counter[BookieId] | None, Counter[Region]]:
        """Count the ledgers that are being written by bookie and region, as last surveyed."""
        by_bookie, by_region = Counter[BookieId](), Counter[Region]()
        found = self._survey.latest()
        if found is None:
            return None, by_region
        for group in found[0].groups():
            if group.layout.is_open:
                members = set(group.layout.parts[-1].bookies)
                by_bookie.update(dict.fromkeys(members, group.ledgers))
                held = {region for one in members if (region := regions.get(one)) is not None}
                by_region.update(dict.fromkeys(held, group.ledgers))
        return by_bookie, by_region

    async def _round_trips(self, bookies: list[BookieView]) -> dict[Region, float]:
        """Measure the shortest round trip to each region, all at once and each with a deadline."""
        turn = int(time.monotonic())
        asked: dict[Region, list[BookieId]] = {}
        for one in bookies:
            if one.region is not None and one.registration is not None:
                asked.setdefault(one.region, []).append(one.bookie)
        chosen = [
            (region, members[(turn + number) % len(members)])
            for region, members in asked.items()
            for number in range(min(_BOOKIES_ASKED, len(members)))
        ]
        took = await asyncio.gather(*(self._round_trip_ms(bookie) for _, bookie in chosen))
        found: dict[Region, float] = {}
        for (region, _), took_ms in zip(chosen, took, strict=True):
            if took_ms is not None:
                found[region] = min(took_ms, found.get(region, took_ms))
        return found

    async def _round_trip_ms(self, bookie: BookieId) -> float | None:
        try:
            async with asyncio.timeout(_ROUND_TRIP_S_MAX):
                return await self._client.ledgers.measure_round_trip_ms(bookie)
        except (RhumblineError, TimeoutError):
            return None
