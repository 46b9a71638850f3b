"""Records the responses of bookies for the checker, at the moment they are sent.

The recorder reads frames on the simulated network. It knows the wire format but not the state of
bookies, so only what a bookie sent counts as its answer.
"""

import struct

from ...core.wire import bookkeeper_pb2 as pb
from ...core.wire.availability import decode as decode_availability
from ..checker.history import TOKEN
from ..checker.run_record import BookieObservations
from .cluster import PORT, SimCluster
from .world.transport import SimTransport

_SIZE = struct.Struct(">I")
_ADD_IDS = struct.Struct(">qq")
_ADD_IDS_AT = 28
_ANSWER = struct.Struct(">IBBHIqq")
_ADD = 1
_READS = (2, 7)
"""The operations of reads of an entry and of consecutive entries."""
_NEGATIVE = (1, 2)
"""The codes "no such ledger" and "no such entry"."""
_V2 = 2
_DEFINITE = (pb.EOK, pb.ENOENTRY, pb.ENOLEDGER)
"""Status codes of a fencing read by which the bookie answers "have it" or "never had it"."""


class AnswerRecorder:
    """Reads every connection of a run and collects the responses in ``observed``."""

    def __init__(self, cluster: SimCluster) -> None:
        self.observed = BookieObservations()
        self._cluster = cluster
        self._loop = cluster.world.loop
        self._held: dict[SimTransport, bytes] = {}
        self._fencing: dict[tuple[int, int], tuple[int, int]] = {}
        """(connection, transaction id) of a fencing read, to its ledger and entry."""
        self._copying: dict[tuple[int, int], tuple[int, int]] = {}
        """The same for adds in the v3 format, which only recovery and repair send."""
        self._listing: dict[tuple[int, int], int] = {}
        """The same for lists of the entries of a ledger, to the ledger."""
        self._writing_lac: dict[tuple[int, int], tuple[int, int]] = {}
        """The same for explicit LAC writes, to ledger and LAC."""
        cluster.world.network.on_sent = self._on_sent

    def _on_sent(self, end: SimTransport, data: bytes) -> None:
        is_answer = end.port == PORT
        if not is_answer and end.peer.port != PORT:
            return
        if self._held:
            data = self._held.pop(end, b"") + data
        at, length = 0, len(data)
        while length - at >= 8:
            (size,) = _SIZE.unpack_from(data, at)
            next_at = at + 4 + size
            if next_at > length:
                break
            if data[at + 4] != _V2:
                of_kind = self._v3_response if is_answer else self._v3_request
                of_kind(end, data[at + 4 : next_at])
            elif data[at + 5] == _ADD:
                if is_answer:
                    self._on_add_answer(end, data, at)
                else:
                    self._on_add(data[at:next_at])
            elif is_answer and data[at + 5] in _READS:
                self._on_read_answer(end, data, at)
            at = next_at
        if at < length:
            self._held[end] = data[at:]

    def _on_add(self, frame: bytes) -> None:
        key = _ADD_IDS.unpack_from(frame, _ADD_IDS_AT)
        if key not in self.observed.tokens:
            self.observed.tokens[key] = tuple(TOKEN.findall(frame))

    def _on_add_answer(self, end: SimTransport, data: bytes, at: int) -> None:
        *_, code, ledger_id, entry_id = _ANSWER.unpack_from(data, at)
        if code == 0:
            now_ms = self._loop.now * 1000
            key = (self._cluster.bookie_ids[end.node.name], ledger_id, entry_id)
            first, _ = self.observed.stored.get(key, (now_ms, now_ms))
            self.observed.stored[key] = (first, now_ms)

    def _on_read_answer(self, end: SimTransport, data: bytes, at: int) -> None:
        *_, code, ledger_id, entry_id = _ANSWER.unpack_from(data, at)
        if code in _NEGATIVE:
            observed = self.observed
            key = (self._cluster.bookie_ids[end.node.name], ledger_id, entry_id)
            if key in observed.stored or key in observed.copied:
                now_ms = self._loop.now * 1000
                first, _ = observed.withdrawals.get(key, (now_ms, now_ms))
                observed.withdrawals[key] = (first, now_ms)

    def _on_list(self, end: SimTransport, ledger_id: int, availability: bytes) -> None:
        bookie, now_ms = self._cluster.bookie_ids[end.node.name], self._loop.now * 1000
        for first, count in decode_availability(availability).runs():
            for entry_id in range(first, first + count):
                self.observed.listed.setdefault((bookie, ledger_id, entry_id), now_ms)

    def _v3_request(self, end: SimTransport, packet: bytes) -> None:
        request = pb.Request.FromString(packet)
        transaction = end.number, request.header.txn_id
        read = request.read_request
        # An unset flag reads as the first enum value, so presence is verified first.
        if read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER:
            self._fencing[transaction] = read.ledger_id, read.entry_id
        elif request.HasField("add_request"):
            add = request.add_request
            self._copying[transaction] = add.ledger_id, add.entry_id
        elif request.HasField("get_list_of_entries_request"):
            self._listing[transaction] = request.get_list_of_entries_request.ledger_id
        elif request.HasField("write_lac_request"):
            write_lac = request.write_lac_request
            self._writing_lac[transaction] = write_lac.ledger_id, write_lac.lac

    def _v3_response(self, end: SimTransport, packet: bytes) -> None:
        if not (self._fencing or self._copying or self._listing or self._writing_lac):
            return
        response = pb.Response.FromString(packet)
        transaction = end.number, response.header.txn_id
        listing = self._listing.pop(transaction, None)
        if listing is not None and response.status == pb.EOK:
            self._on_list(end, listing, response.get_list_of_entries_response.availability)
        copied = self._copying.pop(transaction, None)
        if copied is not None and response.status == pb.EOK:
            key = (self._cluster.bookie_ids[end.node.name], *copied)
            self.observed.copied.setdefault(key, self._loop.now * 1000)
        lac_written = self._writing_lac.pop(transaction, None)
        if lac_written is not None and response.status == pb.EOK:
            written = self._loop.now * 1000, self._cluster.bookie_ids[end.node.name], lac_written[1]
            self.observed.lacs.setdefault(lac_written[0], []).append(written)
        fenced = self._fencing.pop(transaction, None)
        if fenced is None or response.status not in _DEFINITE:
            return
        bookie, now_ms = self._cluster.bookie_ids[end.node.name], self._loop.now * 1000
        self.observed.fences.setdefault((bookie, fenced[0]), now_ms)
        if response.status != pb.EOK and fenced[1] >= 0:
            self.observed.denials.setdefault((bookie, *fenced), now_ms)
