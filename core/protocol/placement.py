"""What a placement policy decides: which bookies hold a ledger. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from .bookie_id import BookieId, Region
from .quorum import Quorum


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """A bookie as placement sees it. ``region`` is None when unknown (an Apache bookie)."""

    bookie: BookieId
    region: Region | None = None
    rack: str | None = None
    free_bytes: int = 0


def in_regions(bookies: Sequence[BookieInfo], allowed: Collection[str]) -> list[BookieInfo]:
    """Those of ``bookies`` that lie in ``allowed`` regions; all of them when it is empty."""
    return [info for info in bookies if not allowed or info.region in allowed]


class PlacementPolicy(Protocol):
    """Chooses ensembles. Both methods raise NotEnoughBookiesError naming the rule that fails."""

    def new_ensemble(
        self,
        quorum: Quorum,
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        near: Region | None = None,
    ) -> tuple[BookieId, ...]:
        """E distinct bookies, legal for ``quorum`` (P holds for every write set).

        ``near``: the writer's region, preferred for latency. Raises NotEnoughBookiesError.
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
        """The ensemble with other bookies at the ``failed`` indices, the rest unmoved, still legal.

        ``candidates`` may contain members; they are not chosen twice. Raises NotEnoughBookiesError
        rather than ever weakening the rule.
        """
        ...
