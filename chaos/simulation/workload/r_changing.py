"""Applications whose ledgers get another R while they are written."""

from random import Random

from ....core.ledger.write.ledger_writer import LedgerWriter
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.errors import RhumblineError
from ..world.sim_world import SimHost
from .workload import Applications


class RChangingApplications(Applications):
    """Applications whose writers can be told another R."""

    async def _session(self, host: SimHost, writer: StreamWriter, random: Random) -> None:
        def change(min_regions: int) -> None:
            # Beside the policy, which sets R back: R changes more often than by policies alone.
            ledger = writer._pipeline.segment.ledger
            assert isinstance(ledger, LedgerWriter)
            try:
                ledger.set_min_regions(min_regions)
            except RhumblineError as error:
                self._note(host, f"R is unchanged: {error}")

        process = host.process

        def change_here(min_regions: int) -> None:
            if process is not None and process.is_running:
                process.context.copy().run(change, min_regions)

        self.cluster.r_changers.append(change_here)
        try:
            await super()._session(host, writer, random)
        finally:
            self.cluster.r_changers.remove(change_here)
