"""The archives of one stream in a run."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class ArchiveUse:
    """The contents of a cold store for the main stream, and what the metadata said about them."""

    complete: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """By segment: the periods (virtual ms) in which its manifest and all its parts existed."""
    recorded: dict[int, float] = field(default_factory=dict)
    """By segment: when its metadata first said that it is archived."""
    differences: list[str] = field(default_factory=list)
    """The differences between the archives and a complete reader, after the run."""
