"""The kinds of faults, their possible targets, and the worlds that support them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BOTH = ("sim", "wan")

REGION, PAIR, PROCESS, BOOKIE, ALL = "region", "pair", "process", "bookie", "all"

OWNER, LEADER = "@owner", "@leader"
"""Targets that are resolved to a region when the fault begins: the region of the active writer, and
the region of the metadata ensemble's leader."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault.

    ``target_type`` is the type of its targets. ``description`` explains the effect, and the meaning
    of ``value`` if the fault uses it.
    """

    target_type: str
    description: str
    worlds: tuple[str, ...] = BOTH


KINDS = {
    "lose-region": FaultKind(
        REGION, "all processes of a region are killed without notice, and restarted at the end"
    ),
    "cut-region": FaultKind(REGION, "no traffic passes between a region and the others"),
    "mute-region": FaultKind(
        REGION, "traffic from a region to the others is lost; traffic to it arrives"
    ),
    "deafen-region": FaultKind(
        REGION, "traffic from the others to a region is lost; traffic from it arrives"
    ),
    "cut-one-way": FaultKind(PAIR, "traffic from one region to another (from>to) is lost"),
    "refuse-region": FaultKind(
        REGION, "connections to and from a region break, and new ones are refused"
    ),
    "slow-region": FaultKind(REGION, "every link of a region is value ms slower in each direction"),
    "narrow-region": FaultKind(REGION, "every link of a region is limited to value KiB/s"),
    "slice-region": FaultKind(
        REGION, "data between a region and the others arrives in tiny pieces"
    ),
    "reset-region": FaultKind(
        REGION, "a fraction (value, 0 to 1) of a region's connections is reset"
    ),
    "reset": FaultKind(
        ALL, "a fraction (value, 0 to 1) of all connections between regions is reset"
    ),
    "limit-region": FaultKind(
        REGION, "each connection to or from a region breaks after value bytes", ("wan",)
    ),
    "swizzle": FaultKind(ALL, "bookies are cut off one by one, and reconnected in another order"),
    "kill": FaultKind(PROCESS, "SIGKILL; the process is restarted at the end"),
    "pause": FaultKind(PROCESS, "SIGSTOP, and SIGCONT at the end"),
    "restart": FaultKind(
        PROCESS, "SIGTERM (SIGKILL in the simulator); the process is restarted at the end"
    ),
    "rolling-restart": FaultKind(
        ALL, "every bookie and every application is restarted, one after the other"
    ),
    "wipe": FaultKind(BOOKIE, "a bookie is killed, and restarted with an empty disk at the end"),
    "full-disk": FaultKind(BOOKIE, "a bookie's disk is full"),
    "slow-disk": FaultKind(BOOKIE, "a bookie's disk is slower by the factor value"),
    "metadata-away": FaultKind(ALL, "the metadata store is unavailable"),
    "metadata-member": FaultKind(REGION, "the metadata ensemble's member in a region is down"),
    "expire-sessions": FaultKind(
        PROCESS, "the metadata store expires the sessions of a running process", ("sim",)
    ),
    "cold-away": FaultKind(ALL, "the cold store is unavailable"),
}


_WORDS = {
    "lose-region": "region lost",
    "cut-region": "region cut off",
    "mute-region": "traffic from the region lost",
    "deafen-region": "traffic to the region lost",
    "cut-one-way": "traffic lost one way",
    "refuse-region": "connections refused",
    "slow-region": "links slow",
    "narrow-region": "links narrow",
    "slice-region": "data in tiny pieces",
    "reset-region": "connections of the region reset",
    "reset": "connections reset",
    "limit-region": "connections break after some bytes",
    "swizzle": "bookies cut off in turn",
    "kill": "killed",
    "pause": "paused",
    "restart": "restarted",
    "rolling-restart": "restarted one after the other",
    "wipe": "disk wiped",
    "full-disk": "disk full",
    "slow-disk": "disk slow",
    "metadata-away": "metadata store away",
    "metadata-member": "member of the metadata ensemble down",
    "expire-sessions": "sessions expired",
    "cold-away": "cold store away",
}
assert _WORDS.keys() == KINDS.keys(), "every kind has words"


def in_words(fault: str) -> str:
    """Return a fault, its kind and target, in the words of reports: ``region lost: west``."""
    kind, _, target = fault.partition(" ")
    words = _WORDS.get(kind, kind)
    return f"{words}: {target}" if target else words


def targets_of(kind: str, regions: Sequence[str], bookies: Sequence[str]) -> list[str]:
    """Return the valid targets of a kind of fault."""
    return list(_targets(KINDS[kind].target_type, regions, bookies))


def _targets(target_type: str, regions: Sequence[str], bookies: Sequence[str]) -> Iterator[str]:
    if target_type == ALL:
        yield "*"
    elif target_type == REGION:
        yield from (*regions, OWNER, LEADER)
    elif target_type == PAIR:
        yield from (
            f"{source}>{other}" for source in regions for other in regions if source != other
        )
    else:
        yield from bookies
        if target_type == PROCESS:
            yield from (f"app-{region}" for region in regions)
