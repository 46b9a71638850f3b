"""The result of a job, for people and for programs."""

from collections.abc import Sequence
from typing import NamedTuple


class JobOutcome(NamedTuple):
    """The result of a job."""

    lines: list[str]
    """The outcome for people."""
    faults: list[str]
    """Faults that the job found."""
    counts: dict[str, int]
    """The numbers of segments and records, as far as the job counts them."""
    remaining: Sequence[str] = ()
    """Work that a later run has to do. No fault, but the job is not complete."""
