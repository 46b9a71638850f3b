"""Placement policies: the interface that chooses the bookies of a ledger (rules PLC-15, PLC-16)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from .bookie_id import BookieId, Region
from .quorum import Quorum


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """A bookie as placement sees it; ``region`` is None if unknown (an Apache bookie)."""

    bookie: BookieId
    region: Region | None = None
    rack: str | None = None
    free_bytes: int = 0
    share_percent: int = 100
    """The share of the free space that counts; lower for a slow or busy bookie (rule PLC-27)."""


def in_regions(bookies: Sequence[BookieInfo], allowed: Collection[str]) -> list[BookieInfo]:
    """Return the ``bookies`` that lie in ``allowed`` regions; all of them if it is empty."""
    return [info for info in bookies if not allowed or info.region in allowed]


class PlacementPolicy(Protocol):
    """A strategy that chooses ensembles; NotEnoughBookiesError names the rule that fails."""

    def new_ensemble(
        self,
        quorum: Quorum,
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        near: Region | None = None,
    ) -> tuple[BookieId, ...]:
        """Choose E distinct bookies that are legal for ``quorum``: P holds for every write set.

        ``near`` is the writer's region, preferred for latency. Raises NotEnoughBookiesError.
        """
        ...

    def replace(
        self,
        quorum: Quorum,
        ensemble: Sequence[BookieInfo],
        failed: Collection[int],
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
    ) -> tuple[BookieId, ...]:
        """Choose other bookies for the ``failed`` indices; all others keep their index.

        The new ensemble is legal too: NotEnoughBookiesError is raised rather than the rule
        weakened. ``candidates`` may contain members, which are not chosen again.
        """
        ...
