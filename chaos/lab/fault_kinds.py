"""The kinds of faults, whom they strike, and which worlds know them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BOTH = ("sim", "wan")

REGION, PAIR, PROCESS, BOOKIE, ALL = "region", "pair", "process", "bookie", "all"

OWNER, LEADER = "@owner", "@leader"
"""Regions that are only known when the fault begins: of who writes, of the metadata's leader."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault. ``says`` names what ``value`` means, if anything."""

    strikes: str
    says: str
    worlds: tuple[str, ...] = BOTH


KINDS = {
    "lose-region": FaultKind(
        REGION, "all processes of a region die and nobody is told; they come back"
    ),
    "cut-region": FaultKind(REGION, "nothing gets in or out of a region"),
    "mute-region": FaultKind(REGION, "nothing gets out of a region; what is sent to it arrives"),
    "deafen-region": FaultKind(REGION, "nothing gets into a region; what it sends arrives"),
    "cut-one-way": FaultKind(PAIR, "nothing gets from one region to another (from>to)"),
    "refuse-region": FaultKind(REGION, "connections with a region break, and new ones are refused"),
    "slow-region": FaultKind(REGION, "each way in or out of a region takes value ms longer"),
    "narrow-region": FaultKind(REGION, "at most value KiB/s get in or out of a region"),
    "slice-region": FaultKind(REGION, "bytes with other regions come in tiny pieces"),
    "reset-region": FaultKind(REGION, "a share (value, 0 to 1) of a region's connections breaks"),
    "reset": FaultKind(ALL, "a share (value, 0 to 1) of all connections between regions breaks"),
    "limit-region": FaultKind(
        REGION, "each connection with a region breaks after value bytes", ("wan",)
    ),
    "swizzle": FaultKind(ALL, "bookies are cut off one by one, and come back in another order"),
    "kill": FaultKind(PROCESS, "SIGKILL; started again when it is over"),
    "pause": FaultKind(PROCESS, "SIGSTOP, and SIGCONT when it is over"),
    "restart": FaultKind(
        PROCESS, "SIGTERM (in the simulator SIGKILL), started again when it is over"
    ),
    "rolling-restart": FaultKind(
        ALL, "every bookie and every application is restarted, one by one"
    ),
    "wipe": FaultKind(BOOKIE, "a bookie dies, and comes back with an empty disk"),
    "full-disk": FaultKind(BOOKIE, "a bookie's disk has no room left"),
    "slow-disk": FaultKind(BOOKIE, "a bookie's disk takes value times as long"),
    "metadata-away": FaultKind(ALL, "the metadata store answers nobody"),
    "metadata-member": FaultKind(REGION, "the metadata store's member in a region is dead"),
    "expire-sessions": FaultKind(
        PROCESS, "the store gives up a living process's sessions", ("sim",)
    ),
    "cold-away": FaultKind(ALL, "the cold store answers nobody"),
}


def targets_of(kind: str, regions: Sequence[str], bookies: Sequence[str]) -> list[str]:
    """Whom a fault of a kind may strike."""
    return list(_targets(KINDS[kind].strikes, regions, bookies))


def _targets(strikes: str, regions: Sequence[str], bookies: Sequence[str]) -> Iterator[str]:
    if strikes == ALL:
        yield "*"
    elif strikes == REGION:
        yield from (*regions, OWNER, LEADER)
    elif strikes == PAIR:
        yield from (f"{one}>{other}" for one in regions for other in regions if one != other)
    else:
        yield from bookies
        if strikes == PROCESS:
            yield from (f"app-{region}" for region in regions)
