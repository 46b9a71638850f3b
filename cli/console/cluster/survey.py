"""Surveys the ledgers and bookies of a cluster: what is written where, and what a loss would do."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ....client.connect import Client
from ....core.protocol.errors import NoSuchNamespaceError, RhumblineError
from ....core.protocol.placement import LEVELS
from ....core.runtime.tasks import Tasks
from ....placement.planner import Numbers
from ....placement.planner import plan as make_plan
from ....placement.topology import Topology
from ....regions.durability.cluster_survey import read_durability
from ....regions.durability.copy_states import ClusterCopies
from ....regions.durability.judgement import CopyVerdict
from ....regions.durability.ledger_index import LedgerIndex
from ....regions.durability.report import DurabilityReport, as_document, tally
from ...operate.durability.command import after_losses

LOSSES_MAX = 64
"""Maximum number of places in one question."""
_STREAMS_SHOWN = 200
_SCAN_SHARE = 10
"""Scans of all ledgers take at most a tenth of the time."""
_AGE_S_MIN = 2.0
_REGIONS_PLANNED = 6
_JUDGED_MAX = 32
"""Answers that are kept for visitors who ask the same."""
_ALTERNATIVES: tuple[Numbers, ...] = (
    (3, 3, 2, 1), (3, 3, 2, 2), (4, 4, 3, 2), (5, 5, 3, 2), (5, 5, 3, 3), (6, 6, 4, 2),
    (6, 6, 4, 3),
)  # fmt: skip


class LedgerSurvey:
    """Reads all ledgers and bookies, at most one scan at a time; the last one is kept."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._found: tuple[LedgerIndex, ClusterCopies] | None = None
        self._read_at = 0.0
        self._took_s = 0.0
        self._judged = OrderedDict[
            tuple[str, ...], tuple[tuple[LedgerIndex, ClusterCopies], dict[str, Any]]
        ]()
        self._failure: RhumblineError | None = None
        self._tasks = Tasks()

    async def aclose(self) -> None:
        """End the scan that is in progress. Safe to repeat."""
        await self._tasks.aclose()

    @property
    def comfortable_age_s(self) -> float:
        """The age at which a new scan costs little: ten times the duration of the last one."""
        return max(_AGE_S_MIN, _SCAN_SHARE * self._took_s)

    async def read(self, *, age_s_max: float) -> tuple[LedgerIndex, ClusterCopies]:
        """Return a survey that is not older than ``age_s_max``. Raises MetadataUnavailableError."""
        async with self._turn:
            clock = asyncio.get_running_loop().time
            began = clock()
            if self._found is None or began - self._read_at > age_s_max:
                client = self._client
                self._found = await read_durability(client.ledger_store, client.directory)
                self._read_at, self._took_s = clock(), clock() - began
            return self._found

    def latest(self) -> tuple[LedgerIndex, ClusterCopies] | None:
        """Return the last survey without waiting, and begin another one if it is old.

        None: there is none yet. Raises the error of the last scan, once.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        age_s = asyncio.get_running_loop().time() - self._read_at
        is_old = self._found is None or age_s > self.comfortable_age_s
        if is_old and not len(self._tasks):
            self._tasks.spawn(self._refresh(), "survey the ledgers")
        return self._found

    async def _refresh(self) -> None:
        try:
            await self.read(age_s_max=self.comfortable_age_s)
        except RhumblineError as error:
            self._failure = error

    async def what_if(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what the loss of these places would do; their form is that of ``durability``.

        Visitors who ask the same question about the same survey share the answer. Raises
        InvalidArgumentError (unknown place), MetadataUnavailableError.
        """
        found = await self.read(age_s_max=self.comfortable_age_s)
        key = tuple(sorted(set(names)))
        known = self._judged.get(key)
        if known is None or known[0] is not found:
            self._judged[key] = known = found, await self._judge(*found, key)
            self._judged.move_to_end(key)
            if len(self._judged) > _JUDGED_MAX:
                self._judged.popitem(last=False)
        return known[1]

    async def _judge(
        self, index: LedgerIndex, cluster: ClusterCopies, names: Sequence[str]
    ) -> dict[str, Any]:
        now = tally(index, cluster)
        after = after_losses(index, cluster, names) if names else now
        lost_regions = [name for name in names if ":" not in name]
        current = await self._current_quorum()
        return {
            "lost": list(names),
            "places": places(cluster),
            "now": _summary(now),
            "after": _summary(after),
            "streams": _streams(now, after),
            "alternatives": await asyncio.to_thread(alternatives, cluster, current, lost_regions),
        }

    async def _current_quorum(self) -> Numbers | None:
        try:
            quorum = (await self._client.namespace().policy()).quorum
        except NoSuchNamespaceError:
            return None
        return quorum.ensemble_size, quorum.write_quorum, quorum.ack_quorum, quorum.min_regions


def places(cluster: ClusterCopies) -> list[dict[str, Any]]:
    """Return the bookies with their region and rack, and the state of their copies."""
    rack = LEVELS.index("rack")
    return [
        {
            "bookie": bookie,
            "region": member.path[0] or "unknown",
            "rack": member.path[rack],
            "state": member.state.value,
        }
        for bookie, member in sorted(cluster.members.items())
    ]


def alternatives(
    cluster: ClusterCopies, current: Numbers | None, lost: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the quorum in use and others, with what ``plan`` says of the loss of these regions.

    Without live copies, or with so many regions that a plan takes long, there are none.
    """
    counts: dict[str, int] = {}
    for member in cluster.members.values():
        if member.state.is_live and member.path[0] is not None:
            counts[member.path[0]] = counts.get(member.path[0], 0) + 1
    if not 0 < len(counts) <= _REGIONS_PLANNED:
        return []
    topology = Topology(counts, None)
    rows = []
    for numbers in dict.fromkeys((*((current,) if current else ()), *_ALTERNATIVES)):
        found = make_plan(topology, numbers)
        if found.refusal is not None:
            continue
        effect = next((one for one in found.losses if set(one.lost) == set(lost)), None)
        rows.append(
            {
                "quorum": "/".join(map(str, numbers)),
                "is_current": numbers == current,
                "regions_survived": found.losses_survived(),
                "reads": None if effect is None else effect.data_survives,
                "writes_resume": None if effect is None else effect.writes_resume,
                "obstacle": None if effect is None else effect.obstacle,
                "wan_bytes_per_byte": round(found.wan_bytes_per_byte, 2),
            }
        )
    return rows


def _summary(found: DurabilityReport) -> dict[str, Any]:
    return {
        **as_document(found),
        "ledgers_that_may_lose": found.ledgers_that_may_lose(),
        "entries_that_may_be_lost": found.entries_that_may_be_lost(),
        "bytes_that_may_be_lost": sum(n for v, n in found.bytes.items() if v.may_lose),
        "streams_that_may_lose": len(found.streams_that_may_lose()),
        "streams_blocked": sum(one.is_blocked for one in found.streams.values()),
    }


def _streams(now: DurabilityReport, after: DurabilityReport) -> list[dict[str, Any]]:
    """Return the streams that the losses harm, the worst first."""
    harmed = [
        (name, one) for name, one in after.streams.items() if one.worst.is_at_risk or one.is_blocked
    ]
    harmed.sort(key=lambda item: (-item[1].worst, not item[1].is_blocked, item[0]))
    rows = []
    for name, one in harmed[:_STREAMS_SHOWN]:
        before = now.streams.get(name)
        worst = CopyVerdict.WHOLE if before is None else before.worst
        rows.append(
            {
                "stream": name,
                "verdict": one.worst.key,
                "verdict_now": worst.key,
                "may_lose": one.worst.may_lose,
                "writes_blocked": one.is_blocked,
            }
        )
    return rows
