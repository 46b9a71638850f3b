"""The invariant of conditional appends, evaluated on their outcomes and on what was read."""

from collections.abc import Iterator

from ...core.protocol.dlsn import Dlsn
from .history import TOKEN, AppendOutcome, RecordedAppend
from .run_record import RunRecord, invariant


@invariant("G31")
def conditional_appends_are_at_the_expected_end(record: RunRecord) -> Iterator[str]:
    """A conditional append that is in the stream, whatever its caller was told, has no record of
    another call between the expected end and itself. One that was refused names an end that
    differs from the expected one, and follows a record of the stream or is its beginning."""
    conditional = [one for one in record.history.appends.values() if one.expected is not None]
    if not conditional:
        return
    positions = _positions(record)
    tokens = {position: token for token, position in positions.items()}
    is_whole = any(read.is_complete for read in record.history.reads)
    in_order = sorted(tokens)
    for append in conditional:
        assert append.expected is not None
        at = positions.get(append.token)
        if at is not None:
            between = [one for one in in_order if append.expected <= one < at]
            others = [one for one in between if not _is_of_call(record, tokens[one], append)]
            if at < append.expected or others:
                yield (
                    f"{append} is at {at} and expected the end at {append.expected}, "
                    f"but other records are at {', '.join(map(str, others[:3]))}"
                )
        elif append.outcome is AppendOutcome.FAILED and append.named_end is not None:
            end = append.named_end
            last = Dlsn(end.lssn, end.entry_id, end.slot - 1)
            if end == append.expected or (end.slot and is_whole and last not in tokens):
                yield f"{append} expected {append.expected} and was told that the end is {end}"


def _is_of_call(record: RunRecord, token: bytes, append: RecordedAppend) -> bool:
    other = record.history.appends.get(token)
    return other is append or (other is not None and append.group == other.group != 0)


def _positions(record: RunRecord) -> dict[bytes, Dlsn]:
    """Return where each record is that was acknowledged or read, by its token."""
    found: dict[bytes, Dlsn] = {}
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        if append.dlsn is not None:
            found[append.token] = append.dlsn
    for read in record.history.reads:
        for delivered in read.records:
            token = TOKEN.match(delivered.payload)
            if token is not None:
                found[token.group()] = delivered.dlsn
    return found
