"""Several streams that had one name, one after the other: what the store saw, and who saw which."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from ....core.log.metadata.paths import StreamPaths
from ....core.log.metadata.stream_metadata import StreamRecord
from ....core.protocol.segments import decode_segment
from ...checker.history import TOKEN, AppendOutcome, History, RecordedRead
from ...checker.run_record import SegmentVersion, StreamVersions
from ...checker.stream_invariants import LASTING
from ..cluster import NAMESPACE
from ..world.metadata import Commit


def lives_of(name: str, commits: Iterable[Commit]) -> list[StreamVersions]:
    """The streams that had a name, one after the other, as the store saw them."""
    paths = StreamPaths(NAMESPACE, name)
    found: list[StreamVersions] = []
    for commit in commits:
        at_ms, path, data = commit
        if path == paths.stream:
            if data is not None and (not found or found[-1].gone_ms is not None):
                found.append(StreamVersions(made_ms=at_ms))
            _add(found[-1], StreamRecord.decode(name, data) if data else None, commit)
        elif path.startswith(f"{paths.segments}/"):
            lssn = int(path.rpartition("/")[2])
            segment = None if data is None else decode_segment(lssn, data)
            found[-1].segments.setdefault(lssn, []).append(SegmentVersion(at_ms, segment))
        elif path.startswith(f"{paths.subscriptions}/") and data is None:
            found[-1].unsubscribed.append((at_ms, path.rpartition("/")[2]))
    return found


def _add(life: StreamVersions, record: StreamRecord | None, commit: Commit) -> None:
    if record is not None:
        life.identity = record.identity
        life.starts.append((commit.at_ms, record.start))
    elif commit.data is None:
        life.gone_ms = commit.at_ms
    if life.deleting_ms is None and (commit.data is None or (record and record.is_deleting)):
        life.deleting_ms = commit.at_ms


def ledgers_of(life: StreamVersions) -> dict[int, None]:
    """The ledgers of its segments."""
    return dict.fromkeys(
        version.segment.ledger_id
        for versions in life.segments.values()
        for version in versions
        if version.segment is not None
    )


class Parting:
    """Parts what callers saw of a name into what they saw of each of its streams."""

    def __init__(
        self,
        whole: History,
        lives: list[StreamVersions],
        tokens: Mapping[tuple[int, int], Iterable[bytes]],
    ) -> None:
        """``tokens``: by ledger and entry, those of the records that were sent there."""
        self.wrong: list[str] = []
        """What is of two streams at once, or of none."""
        self.histories = [History(whole.now_ms) for _ in lives]
        """Of each stream."""
        self._lives = lives
        self._sent: dict[bytes, int] = {}
        self._trace(tokens)
        for history, life in zip(self.histories, lives, strict=True):
            history.wishes, history.deleted_ms = whole.wishes, life.gone_ms
        for token, append in whole.appends.items():
            if token in self._sent:
                self.histories[self._sent[token]].appends[token] = append
            elif append.outcome is AppendOutcome.OK:
                self.wrong.append(f"{append} is in no stream")
        for read in whole.reads:
            self._add(read)

    def _trace(self, tokens: Mapping[tuple[int, int], Iterable[bytes]]) -> None:
        places = {one: place for place, life in enumerate(self._lives) for one in ledgers_of(life)}
        for (ledger_id, _), sent in sorted(tokens.items()):
            place = places.get(ledger_id)
            if place is None:
                continue
            for token in sent:
                if self._sent.setdefault(token, place) != place:
                    self.wrong.append(f"{token!r} was sent to two streams")

    def _add(self, read: RecordedRead) -> None:
        place = self._place_of(read)
        if place is not None:
            self.histories[place].reads.append(read)
        elif read.failure in LASTING:
            self.wrong.append(f"{read.reader} got {read.failure}")
        for one, other in pairwise(read.records):
            if self._origin(one.payload) != self._origin(other.payload):
                self.wrong.append(
                    f"{read.reader} got {other.dlsn} of another stream than {one.dlsn}"
                )

    def _origin(self, payload: bytes) -> int | None:
        token = TOKEN.match(payload)
        return self._sent.get(token.group()) if token else None

    def _place_of(self, read: RecordedRead) -> int | None:
        """Which stream it read: as its records say, or the one that was there all the time."""
        if read.records:
            return self._origin(read.records[0].payload)
        until_ms = read.called_ms if read.failed_ms is None else read.failed_ms
        for place, life in enumerate(self._lives):
            gone_ms = float("inf") if life.gone_ms is None else life.gone_ms
            if life.made_ms <= read.called_ms and until_ms < gone_ms:
                return place
        return None
