"""Sees what bookies answer, at the moment at which it leaves them, for the checker.

It stands at the simulated wire and knows the forms of requests, but nothing of what the bookies
think: only what they say counts as said.
"""

import struct

from ...core.wire import bookkeeper_pb2 as pb
from ..checker.history import TOKEN
from ..checker.run_record import Testimony
from .cluster import PORT, SimCluster
from .world.transport import SimTransport

_WORDS = struct.Struct(">IBBH")
_ADD_IDS = struct.Struct(">qq")
_ADD_IDS_AT = 28
_ANSWER = struct.Struct(">IBBHIqq")
_ADD = 1
_V2 = 2
_SAID = (pb.EOK, pb.ENOENTRY, pb.ENOLEDGER)


class AnswerRecorder:
    """Listens to every connection of a run; ``testimony`` is what it heard."""

    def __init__(self, cluster: SimCluster) -> None:
        self.testimony = Testimony()
        self._cluster = cluster
        self._loop = cluster.world.loop
        self._held: dict[SimTransport, bytes] = {}
        self._fencing: dict[tuple[int, int], tuple[int, int]] = {}
        """(connection, transaction) of a fencing read to its ledger and entry."""
        self._copying: dict[tuple[int, int], tuple[int, int]] = {}
        """The same of adds, which in this form are those of recoveries and repair."""
        self._telling: dict[tuple[int, int], tuple[int, int]] = {}
        """The same of what tells a LAC without an entry, to its ledger and LAC."""
        cluster.world.network.on_sent = self._sent

    def _sent(self, end: SimTransport, data: bytes) -> None:
        is_answer = end.port == PORT
        if not is_answer and end.peer.port != PORT:
            return
        data = self._held.pop(end, b"") + data
        at = 0
        while len(data) - at >= 8:
            size = int.from_bytes(data[at : at + 4], "big")
            if len(data) - at - 4 < size:
                break
            if data[at + 4] != _V2:
                self._v3(end, data[at + 4 : at + 4 + size], is_answer)
            elif data[at + 5] == _ADD:
                if is_answer:
                    self._added(end, data, at)
                else:
                    self._adding(data[at : at + 4 + size])
            at += 4 + size
        if at < len(data):
            self._held[end] = data[at:]

    def _adding(self, frame: bytes) -> None:
        key = _ADD_IDS.unpack_from(frame, _ADD_IDS_AT)
        if key not in self.testimony.tokens:
            self.testimony.tokens[key] = tuple(TOKEN.findall(frame))

    def _added(self, end: SimTransport, data: bytes, at: int) -> None:
        *_, code, ledger_id, entry_id = _ANSWER.unpack_from(data, at)
        if code == 0:
            now_ms = self._loop.now * 1000
            key = (self._cluster.ids[end.node.name], ledger_id, entry_id)
            first, _ = self.testimony.stored.get(key, (now_ms, now_ms))
            self.testimony.stored[key] = (first, now_ms)

    def _v3(self, end: SimTransport, packet: bytes, is_answer: bool) -> None:
        if not is_answer:
            request = pb.Request.FromString(packet)
            read = request.read_request
            # A flag that is not set reads as the first one there is.
            if read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER:
                wanted = read.ledger_id, read.entry_id
                self._fencing[end.number, request.header.txn_id] = wanted
            elif request.HasField("add_request"):
                add = request.add_request
                self._copying[end.number, request.header.txn_id] = add.ledger_id, add.entry_id
            elif request.HasField("write_lac_request"):
                news = request.write_lac_request
                self._telling[end.number, request.header.txn_id] = news.ledger_id, news.lac
            return
        if not (self._fencing or self._copying or self._telling):
            return
        response = pb.Response.FromString(packet)
        transaction = end.number, response.header.txn_id
        copied = self._copying.pop(transaction, None)
        if copied is not None and response.status == pb.EOK:
            key = (self._cluster.ids[end.node.name], *copied)
            self.testimony.copied.setdefault(key, self._loop.now * 1000)
        told = self._telling.pop(transaction, None)
        if told is not None and response.status == pb.EOK:
            words = self._loop.now * 1000, self._cluster.ids[end.node.name], told[1]
            self.testimony.lacs.setdefault(told[0], []).append(words)
        asked = self._fencing.pop(transaction, None)
        if asked is None or response.status not in _SAID:
            return
        bookie, now_ms = self._cluster.ids[end.node.name], self._loop.now * 1000
        self.testimony.fences.setdefault((bookie, asked[0]), now_ms)
        if response.status != pb.EOK and asked[1] >= 0:
            self.testimony.denials.setdefault((bookie, *asked), now_ms)
