"""Which replica to ask first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from ..protocol.bookie_id import BookieId, Region


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """A replica that could be asked. ``has_failed``: lately, so it should sink in the order."""

    index: int
    bookie: BookieId
    region: str | None
    has_failed: bool


ReadOrder = Callable[[Sequence[ReplicaChoice]], Sequence[ReplicaChoice]]
"""Brings replicas into the order in which to ask them."""


def nearest_first(own: Region | None, random: Random) -> ReadOrder:
    """Healthy ones of our region, then other healthy ones, then the failed; random among equals."""

    def order(choices: Sequence[ReplicaChoice]) -> list[ReplicaChoice]:
        shuffled = list(choices)
        random.shuffle(shuffled)
        return sorted(
            shuffled,
            key=lambda choice: (choice.has_failed, own is None or choice.region != own),
        )

    return order
