"""Finds out in advance what a move of a namespace concerns, and what prevents it.

Nothing is changed.
"""

from dataclasses import dataclass, field

from ...core.log.policy import StreamPolicy
from ...core.protocol.bookie_id import Region
from ...core.runtime.tasks import run_all
from .ledger_steps import LedgerSteps
from .stream_steps import StreamSteps

OBSTACLES_MAX = 20
LEDGERS_AT_ONCE = 32


@dataclass(slots=True)
class MoveSurvey:
    """The content of a namespace, and the reasons why it cannot be moved as it is."""

    streams: int = 0
    segments: int = 0
    bytes: int = 0
    """Payload bytes of completed segments."""
    obstacles: list[str] = field(default_factory=list)
    """At most ``OBSTACLES_MAX``."""


def policy_obstacle(policy: StreamPolicy, region: Region) -> str:
    """Return why streams with this policy cannot be in the store of ``region``; "" if they can."""
    if policy.quorum.min_regions > 1:
        return f"the policy wants copies in {policy.quorum.min_regions} regions"
    if set(policy.regions) - {region}:
        return f"the policy allows the regions {', '.join(policy.regions)}"
    return ""


async def survey(streams: StreamSteps, ledgers: LedgerSteps, region: Region | None) -> MoveSurvey:
    """Return what is in the namespace, and what prevents a move to the store of ``region``.

    Raises NoSuchNamespaceError, MetadataError, CorruptionError.
    """
    found = MoveSurvey()

    def add(stream: str, obstacle: str) -> None:
        if obstacle and len(found.obstacles) < OBSTACLES_MAX:
            found.obstacles.append(f"stream {stream}: {obstacle}")

    for stream in await streams.names(streams.source):
        found.streams += 1
        if region is not None:
            add(stream, policy_obstacle(await streams.policy(stream), region))
        for segment in await streams.segments(streams.source, stream):
            found.segments += 1
            found.bytes += segment.length_bytes
        ids = await streams.ledger_ids(streams.source, stream)
        for start in range(0, len(ids), LEDGERS_AT_ONCE):
            group = ids[start : start + LEDGERS_AT_ONCE]
            lookups = [ledgers.find_obstacle(ledger_id) for ledger_id in group]
            for obstacle in await run_all(lookups, "examine ledgers"):
                add(stream, obstacle)
    return found
