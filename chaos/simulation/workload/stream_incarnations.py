"""Tells apart the streams that had one name in turn.

``incarnations_of`` reads them from the changes of the metadata store; ``HistorySplitter`` assigns
what callers saw of the name to the incarnations.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from ....core.log.metadata.paths import StreamPaths
from ....core.log.metadata.stream_metadata import StreamRecord
from ....core.protocol.segments import decode_segment
from ...checker.history import TOKEN, AppendOutcome, History, RecordedRead
from ...checker.run_record import SegmentVersion, StreamVersions
from ...checker.truncation_invariants import LASTING
from ..cluster import NAMESPACE
from ..world.metadata import Commit


def incarnations_of(name: str, commits: Iterable[Commit]) -> list[StreamVersions]:
    """Return the streams that had a name, in order, as the metadata store recorded them."""
    paths = StreamPaths(NAMESPACE, name)
    found: list[StreamVersions] = []
    for commit in commits:
        at_ms, path, data = commit
        if path == paths.stream:
            if data is not None and (not found or found[-1].removed_ms is not None):
                found.append(StreamVersions(created_ms=at_ms))
            _add(found[-1], StreamRecord.decode(name, data) if data else None, commit)
        elif path.startswith(f"{paths.segments}/"):
            lssn = int(path.rpartition("/")[2])
            segment = None if data is None else decode_segment(lssn, data)
            found[-1].segments.setdefault(lssn, []).append(SegmentVersion(at_ms, segment))
        elif path.startswith(f"{paths.subscriptions}/") and data is None:
            found[-1].removed_subscriptions.append((at_ms, path.rpartition("/")[2]))
    return found


def _add(incarnation: StreamVersions, record: StreamRecord | None, commit: Commit) -> None:
    if record is not None:
        incarnation.identity = record.identity
        incarnation.starts.append((commit.at_ms, record.start))
    elif commit.data is None:
        incarnation.removed_ms = commit.at_ms
    if incarnation.deleting_ms is None and (commit.data is None or (record and record.is_deleting)):
        incarnation.deleting_ms = commit.at_ms


def ledgers_of(incarnation: StreamVersions) -> dict[int, None]:
    """Return the ledgers of an incarnation's segments, as the keys of a dictionary."""
    return dict.fromkeys(
        version.segment.ledger_id
        for versions in incarnation.segments.values()
        for version in versions
        if version.segment is not None
    )


class HistorySplitter:
    """Splits the history of a name into one history for each incarnation."""

    def __init__(
        self,
        whole: History,
        incarnations: list[StreamVersions],
        tokens: Mapping[tuple[int, int], Iterable[bytes]],
    ) -> None:
        """``tokens``: for each (ledger, entry), the tokens of the records that were sent to it."""
        self.errors: list[str] = []
        """Descriptions of records that belong to two incarnations, or to none."""
        self.histories = [History(whole.now_ms) for _ in incarnations]
        """The history of each incarnation."""
        self._incarnations = incarnations
        self._sent: dict[bytes, int] = {}
        self._trace(tokens)
        for history, incarnation in zip(self.histories, incarnations, strict=True):
            history.admin_calls, history.deleted_ms = whole.admin_calls, incarnation.removed_ms
        for token, append in whole.appends.items():
            if token in self._sent:
                self.histories[self._sent[token]].appends[token] = append
            elif append.outcome is AppendOutcome.OK:
                self.errors.append(f"{append} is in no stream")
        for read in whole.reads:
            self._add(read)

    def _trace(self, tokens: Mapping[tuple[int, int], Iterable[bytes]]) -> None:
        index_of_ledger = {
            ledger_id: index
            for index, incarnation in enumerate(self._incarnations)
            for ledger_id in ledgers_of(incarnation)
        }
        for (ledger_id, _), sent in sorted(tokens.items()):
            index = index_of_ledger.get(ledger_id)
            if index is None:
                continue
            for token in sent:
                if self._sent.setdefault(token, index) != index:
                    self.errors.append(f"{token!r} was sent to two streams")

    def _add(self, read: RecordedRead) -> None:
        index = self._index_of(read)
        if index is not None:
            self.histories[index].reads.append(read)
        elif read.failure in LASTING:
            self.errors.append(f"{read.reader} got {read.failure}")
        for delivered, other in pairwise(read.records):
            if self._origin(delivered.payload) != self._origin(other.payload):
                self.errors.append(
                    f"{read.reader} got {other.dlsn} of another stream than {delivered.dlsn}"
                )

    def _origin(self, payload: bytes) -> int | None:
        token = TOKEN.match(payload)
        return self._sent.get(token.group()) if token else None

    def _index_of(self, read: RecordedRead) -> int | None:
        """Return the index of the incarnation that was read; None if it is unknown.

        It follows from the first record, or else is the incarnation that existed all the time.
        """
        if read.records:
            return self._origin(read.records[0].payload)
        until_ms = read.called_ms if read.failed_ms is None else read.failed_ms
        for index, incarnation in enumerate(self._incarnations):
            removed_ms = float("inf") if incarnation.removed_ms is None else incarnation.removed_ms
            if incarnation.created_ms <= read.called_ms and until_ms < removed_ms:
                return index
        return None
