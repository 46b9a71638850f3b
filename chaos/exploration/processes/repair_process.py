"""The repair of a scope: production code that repairs the ledger once."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import cast

from ....core.ledger.client import LedgerClient
from ....core.ledger.context import LedgerContext
from ....core.metadata.bookie_directory import BookieDirectory
from ....core.metadata.ledger_store import LedgerStore
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.ledger_metadata import LedgerMetadata
from ....core.runtime.metadata_store import MetadataStore
from ....core.runtime.runtime import Runtime
from ....placement.region_aware import RegionAwarePlacement
from ....regions.repair.config import RepairConfig
from ....regions.repair.ledger_repairer import LedgerRepairer
from ....regions.repair.liveness import Liveness
from ....regions.states import PlacementStates
from ....regions.steered_directory import SteeredDirectory
from .canonical import Opaque
from .client_process import CONFIG, FixedClock
from .programs import SteppedTask


class _SteppedClientOfLedgers(LedgerClient, Opaque):
    """A ledger client whose context is that of the process."""


class _SteppedRepairer(LedgerRepairer, Opaque):
    """A repairer; what it does is in the frames of its task. The policy does not change."""

    policy_r: int | None = None

    async def _wanted_r(self, metadata: LedgerMetadata) -> int | None:
        return self.policy_r


class SteppedRepair(SteppedTask):
    """Repairs the ledger once. It considers the bookies ``lost`` as gone, whether they are or not.

    ``policy_r`` is the R of the policy of the ledger's stream, None if it belongs to no stream.
    If repair is stuck, which its service would try again later, the process ends.
    """

    def __init__(
        self,
        name: str,
        regions: Mapping[BookieId, Region],
        ledger_id: int,
        *,
        lost: Sequence[BookieId],
        policy_r: int | None = None,
        faults: tuple[str, ...] = (),
        time_steps: int = 0,
    ) -> None:
        self._ledger_id = ledger_id
        self._lost = dict.fromkeys(lost)
        self._policy_r = policy_r
        super().__init__(name, regions, faults=faults, time_steps=time_steps)

    def _make_context(self) -> LedgerContext:
        runtime = Runtime(FixedClock(), Random(0))
        directory = cast(BookieDirectory, self.directory)
        store = cast(MetadataStore, self.store)
        region = next(iter(self.regions.values()))
        placement = RegionAwarePlacement()
        self._ledgers = LedgerStore(store)
        self._client = _SteppedClientOfLedgers(
            runtime,
            self._ledgers,
            directory,
            placement,
            CONFIG,
            region,
            on_evidence=self.on_evidence,
        )
        self._repairer = _SteppedRepairer(
            runtime,
            self._client,
            store,
            cast(SteeredDirectory, directory),
            placement,
            config=RepairConfig(),
        )
        self._repairer.policy_r = self._policy_r
        return self._client._context

    async def main(self) -> None:
        """See SteppedTask."""
        present = [
            info for info in await self.directory.snapshot() if info.bookie not in self._lost
        ]
        by_id = {info.bookie: info for info in present}
        liveness = Liveness(PlacementStates(), present, by_id, self._lost)
        metadata, version = await self._ledgers.read(self._ledger_id)
        await self._repairer.repair(metadata, version, liveness)
