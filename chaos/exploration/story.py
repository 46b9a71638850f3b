"""The story of a schedule: one line for each event, as in the trace of a simulated run."""

from collections.abc import Iterator
from types import SimpleNamespace

from ...core.protocol.bookie_id import bookie_name
from ...core.wire import bookkeeper_pb2 as pb
from ...core.wire import v2, v3
from ...core.wire.ledger_metadata import decode
from ..simulation.world.trace import Trace
from .explorer import Explorer, FoundViolation
from .processes.process import FRAME, LOST, Message
from .processes.store_port import PUT, VALUE
from .scope import LEDGER

_CLIENTS = ("writer", "recovery", "reader", "repair")
"""The beginnings of the names of processes that get responses. All others get requests."""


def story_of(explorer: Explorer, violation: FoundViolation) -> list[str]:
    """Return the lines of a violation's schedule, the violation last. Times are event numbers."""
    states = explorer.states
    clock = SimpleNamespace(now=0.0)
    trace = Trace(clock)
    for number, event in violation.schedule:
        clock.now += 1
        name = bookie_name_of(states.names[number])
        if event.action:
            trace.note(name, event.action)
        else:
            source = bookie_name_of(states.names[event.source])
            is_answer = name.startswith(_CLIENTS)
            text = describe(states.message(event.message), is_answer=is_answer)
            trace.note(name, f"gets from {source}: {text}")
    trace.note("checker", f"VIOLATED {violation.text}")
    return trace.lines


def bookie_name_of(name: str) -> str:
    """Return the name of a process as it is printed."""
    return bookie_name(name)  # type: ignore[arg-type]


def describe(message: Message, *, is_answer: bool) -> str:
    """Return a message in words."""
    if message.kind == LOST:
        return (
            "the connection is lost, and cannot be opened again"
            if message.data[0]
            else ("the connection is lost")
        )
    if message.kind != FRAME:
        return f"{message.kind} {' '.join(_values_of(message))}"
    (frame,) = message.data
    assert isinstance(frame, bytes)
    if frame[0] == v2.VERSION:
        return _answer_v2(frame) if is_answer else _request_v2(frame)
    return _answer_v3(frame) if is_answer else _request_v3(frame)


def _values_of(message: Message) -> Iterator[str]:
    for value in message.data[1:]:
        if isinstance(value, bytes) and message.kind in (PUT, VALUE):
            metadata = decode(LEDGER, value)
            yield f"{metadata.state.name} end {metadata.last_entry_id}"
            yield ", ".join(
                f"{f.first_entry_id}: {' '.join(f.bookies)}" for f in metadata.fragments
            )
        else:
            yield str(value)


def _request_v2(frame: bytes) -> str:
    request = v2.decode_request(frame)
    if isinstance(request, v2.AddRequest):
        return f"add of entry {request.entry_id}"
    return f"{type(request).__name__} {getattr(request, 'entry_id', '')}"


def _answer_v2(frame: bytes) -> str:
    answer = v2.decode_response(frame)
    if isinstance(answer, v2.AuthResponse):
        return "handshake"
    return f"{type(answer).__name__} {answer[1:3]}: {_code_of(answer.code)}"


def _code_of(code: int) -> str:
    try:
        return v2.Code(code).name
    except ValueError:
        return str(code)


def _request_v3(frame: bytes) -> str:
    request = v3.decode_request(frame)
    if request.HasField("add_request"):
        return f"recovery add of entry {request.add_request.entry_id}"
    read = request.read_request
    if request.HasField("read_request"):
        is_fencing = read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER
        entry = "the last entry" if read.entry_id < 0 else f"entry {read.entry_id}"
        return f"{'fencing ' if is_fencing else ''}read of {entry}"
    return str(v3.Operation(request.header.operation).name)


def _answer_v3(frame: bytes) -> str:
    answer = v3.decode_response(frame)
    status = v3.status_of(answer)
    try:
        text = v3.Status(status).name
    except ValueError:
        text = str(status)
    if answer.HasField("add_response"):
        return f"recovery add of entry {answer.add_response.entry_id}: {text}"
    if answer.HasField("read_response"):
        return f"read of entry {answer.read_response.entry_id}: {text}"
    return text
