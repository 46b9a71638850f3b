"""The schema of what ``rhumbline durability`` prints for programs."""

from ....regions.durability.judgement import CopyVerdict
from ....regions.durability.report import CLOSED, OPEN
from ...output_schema import Schema, flag, integer, listing, record, table, text

_BY_VERDICT = {verdict.key: integer(f"Those that are {verdict.key}.") for verdict in CopyVerdict}
_BY_STATE = {OPEN: record(_BY_VERDICT), CLOSED: record(_BY_VERDICT)}
_BY_STREAMS = listing(text("namespace/stream."), "Streams.")

_REPORT: dict[str, Schema] = {
    "ledgers": record(_BY_STATE),
    "ledgers_unreadable": integer("Ledgers whose metadata is damaged."),
    "entries": record(_BY_VERDICT),
    "bytes": record(_BY_VERDICT),
    "one_failure_from_loss": table(
        record({OPEN: integer("Open ledgers."), CLOSED: integer("Closed ledgers.")}),
        "By level: ledgers of which one failure takes the last live copies of entries.",
    ),
    "one_failure_from_blocking": table(
        integer("Open ledgers."), "By level: open ledgers that one failure makes unwritable."
    ),
    "writes_blocked": integer("Open ledgers that cannot be written now."),
    "ends_undecidable": integer("Open ledgers that cannot be closed now."),
}
_CAUSE = record(
    {
        "bookie": text("Id of the bookie."),
        "state": text("Its state."),
        "ledgers": integer("Ledgers that are at risk without it."),
    }
)
_STREAM = record(
    {
        "stream": text("namespace/stream."),
        "verdict": text("That of its worst entry.", *(verdict.key for verdict in CopyVerdict)),
        "ledgers": integer("Its ledgers."),
        "ledgers_at_risk": integer("Those at risk, or worse."),
        "one_bookie_from_loss": integer("Those of which some entries have one live copy."),
        "writes_blocked": flag("True if its open segment cannot be written."),
        "one_bookie_from_blocking": flag("True if the loss of a bookie blocks its writes."),
    }
)

DURABILITY = record(
    {
        "now": record(
            {
                **_REPORT,
                "bookies": table(integer("Bookies."), "Bookies by state."),
                "streams_at_risk": _BY_STREAMS,
                "causes": listing(_CAUSE, "Bookies without which ledgers are at risk."),
                "entries_crowded": table(integer("Entries."), "By level: copies too close."),
                "entries_by_r": table(integer("Entries."), "By the R they were written under."),
            }
        ),
        "what_if": listing(
            record(
                {
                    "lost": listing(text("Region, zone, rack, host or bookie."), "The losses."),
                    **_REPORT,
                    "streams_that_may_lose": _BY_STREAMS,
                }
            ),
            "The same after each loss.",
        ),
        "streams": listing(_STREAM, "Every stream, under --streams."),
    },
    optional=("streams",),
)
"""The schema of ``rhumbline durability``."""
