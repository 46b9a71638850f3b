"""The schemas that the programs of a run stored with a stream."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class SchemaUse:
    """The calls that added schemas to one stream, and the histories that the stream had."""

    checked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By schema: the schemas that its program had read and checked before the call."""
    outcomes: dict[str, bool] = field(default_factory=dict)
    """True: the call returned that the schema was added. False: that the history was another one.
    Calls that raised have no outcome here."""
    versions: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)
    """(virtual ms, all schemas), in the order of the store."""
