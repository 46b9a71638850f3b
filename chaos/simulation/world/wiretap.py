"""Describes the frames and the cut paths of the simulated network in the trace."""

import struct
from collections.abc import Iterator

from .network import SimNetwork
from .transport import SimTransport

_ADD = struct.Struct(">BBH20sqqqq")
_READ = struct.Struct(">BBHqq")
_ANSWER = struct.Struct(">BBHIqq")
_BOOKIE_PORT = 3181
_CALL_FRAMES = ("call of", "message", "end", "error")
"""Frames of proxy calls by their first byte; see ``chaos/simulation/proxies/proxy_calls.py``."""
_OPERATIONS = {1: "add", 2: "read", 3: "auth", 7: "batch read"}
_FLAGS = ((1, " fencing"), (2, " recovery"), (4, " urgent"))
_CODES = {
    0: "ok",
    1: "no such ledger",
    2: "no such entry",
    100: "bad request",
    101: "unknown (I/O error)",
    102: "unauthorized",
    104: "fenced",
    105: "read-only",
    106: "too many requests",
}


class Wiretap:
    """Writes a trace line for each frame that arrives, and for each path that is cut or opened."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self._held: dict[SimTransport, bytes] = {}
        self._cuts: set[tuple[str, str]] = set()
        network.on_delivery = self._delivered
        network.on_change = self._paths_changed

    def _paths_changed(self) -> None:
        cuts = {path for path, number in self._network.cuts.items() if number > 0}
        for source, target in sorted(cuts ^ self._cuts):
            state = "cut" if (source, target) in cuts else "open"
            self._network.trace.detail("paths", f"{source} > {target} is {state}")
        self._cuts = cuts

    def _delivered(self, end: SimTransport, data: bytes) -> None:
        port = end.get_extra_info("sockname")[1]
        is_request = port < 20_000  # servers have low ports
        describe = _describe_request if is_request else _describe_response
        if (port if is_request else end.get_extra_info("peername")[1]) != _BOOKIE_PORT:
            describe = _describe_call
        path = f"{end.peer.node.name} > {end.node.name}"
        for frame in self._frames(end, data):
            text = describe(frame)
            self._network.trace.detail("wire", f"{path}: {text}")

    def _frames(self, end: SimTransport, data: bytes) -> Iterator[bytes]:
        held = self._held.get(end, b"") + data
        while len(held) >= 4 and len(held) >= 4 + (size := int.from_bytes(held[:4], "big")):
            yield held[4 : 4 + size]
            held = held[4 + size :]
        self._held[end] = held


def _describe_request(frame: bytes) -> str:
    if frame[:1] != b"\x02":
        return f"v3 request of {len(frame)} bytes"
    if len(frame) < 4:
        return f"request of {len(frame)} bytes"
    _, operation, flags = struct.unpack_from(">BBH", frame)
    words = _OPERATIONS.get(operation, f"operation {operation}")
    words += "".join(text for bit, text in _FLAGS if flags & bit)
    if operation == 1 and len(frame) >= _ADD.size:
        _, _, _, _, ledger, entry, lac, _ = _ADD.unpack_from(frame)
        return f"{words} ledger {ledger} entry {entry}, LAC {lac}, {len(frame)} bytes"
    if operation in (2, 7) and len(frame) >= _READ.size:
        _, _, _, ledger, entry = _READ.unpack_from(frame)
        return f"{words} ledger {ledger} entry {entry}"
    return words


def _describe_response(frame: bytes) -> str:
    if frame[:1] != b"\x02":
        return f"v3 response of {len(frame)} bytes"
    if len(frame) < 2:
        return f"response of {len(frame)} bytes"
    operation = frame[1]
    words = _OPERATIONS.get(operation, f"operation {operation}")
    if operation in (1, 2, 7) and len(frame) >= _ANSWER.size:
        _, _, _, code, ledger, entry = _ANSWER.unpack_from(frame)
        return f"{words} ledger {ledger} entry {entry}: {_CODES.get(code, code)}"
    return f"{words} response"


def _describe_call(frame: bytes) -> str:
    kind = frame[0] if frame else len(_CALL_FRAMES)
    if kind >= len(_CALL_FRAMES):
        return f"frame of {len(frame)} bytes"
    if kind == 0:
        return f"{_CALL_FRAMES[kind]} {frame[1:].decode(errors='replace')}"
    return f"{_CALL_FRAMES[kind]} of {len(frame) - 1} bytes"
