"""Generates the reference page of the gRPC service from the .proto file and its comments."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...core.protocol.errors import error_classes
from ...proxies.client.sender_state import SENDER
from ...proxies.rpc.grpc_status import status_name
from .state_machines import tables_of

PROTO = Path(__file__).parents[2] / "proxies" / "rpc" / "rhumbline.proto"

_HEAD = """\
# gRPC API

Generated from `proxies/rpc/rhumbline.proto`; do not edit. Every write and read proxy serves
`rhumbline.v1.Rhumbline`, `grpc.health.v1.Health` and server reflection (v1alpha). To run proxies
and use them from Python, see [Run proxies](../how-to/run-proxies.md).
"""
_RULES = """\
## Record sets

`AppendItem.record_set` and `ReadResponse.entries` hold [record sets](../storage-format.md#record-sets):
columns behind a header of 96 bytes, with a CRC32C of each, optionally compressed with zstd. That
section has the layout of every byte and examples to test a decoder with. A simple producer leaves
`record_set` empty and sends `payloads`; the proxy then makes the set.

## Retries

A producer is in one of these states, as in the thin client ([its
diagram](state-machines.md#sender-of-a-thin-client)). An answer with positions changes none of them.

{sender}

Decide by the `Error` of an answer or of the details of the status whether an attempt may be repeated,
and where. A producer numbers its sets (a
producer id of its own, sequences without gaps), so that a set that is sent again is stored once.
[PRX-9](../protocol/proxies.md#PRX-9) to [PRX-17](../protocol/proxies.md#PRX-17) have the reasons.

| what happens | what the client does |
|---|---|
| `not-owner` with `owner` | continues at that address |
| `not-owner` without it, another error with `retryable`, status UNAVAILABLE or ABORTED | continues at an address that it did not try yet; pauses once all were tried, 0.25 s at most, with jitter |
| `too-many-requests` | repeats at the same address after a pause |
| `over-rate` | repeats at the same address after `retry_after_ms` |
| `append-outcome-unknown`, or the call ends without an answer | repeats a numbered set; a set without a producer id may be stored twice if it is repeated |
| any other code | gives up: a repeat is refused again |
| an append was refused | waits until every set in flight has an answer or the call has ended, then sends those without a result again in order, the first with `restarts` and the addresses in `tried` |
| 125 ms of silence while answers are due | sends an empty AppendRequest; after 250 ms it may ask another proxy with ProbeProxy whether the silent one is lost; if so, or after 1.5 s of silence, the call has failed |
| a read ends without `is_end` | reads again from the position after the last entry, with the `stream_id` of the first response |
| 3.5 s of silence with `heartbeat_ms` = 1000 | the read has failed |
| CreateStream or DeleteStream ends without an answer | describes the stream to learn the outcome: a repeat may affect another stream of the name |
"""  # noqa: E501 - rows of a table
_RPC = re.compile(r"rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\);")
_FIELD = re.compile(r"(?:(repeated|optional) )?([\w.]+) (\w+) = (\d+);")
_OPENS = re.compile(r"(message|oneof) (\w+) \{(\})?")


class _Field(NamedTuple):
    number: int
    name: str
    type: str
    doc: str


def grpc_page() -> str:
    """Return the page with calls, messages and error codes."""
    proto = PROTO.read_text(encoding="utf-8")
    lines = list(_commented(proto))
    rules = _RULES.replace("{sender}", "\n".join(tables_of(SENDER)))
    parts = [_HEAD, *_introduction(proto), *_calls(lines), rules, *_messages(lines), *_errors()]
    return "\n".join(parts)


def _introduction(proto: str) -> Iterator[str]:
    """Yield the paragraphs of the comment at the beginning of the file."""
    comment = proto.partition("\nsyntax")[0]
    for paragraph in re.split(r"\n//\s*\n", comment.strip()):
        yield " ".join(line.removeprefix("//").strip() for line in paragraph.splitlines()) + "\n"


def _commented(proto: str) -> Iterator[tuple[str, str]]:
    """Yield each line with the comment above it. Relies on one declaration per line."""
    comments: list[str] = []
    for line in map(str.strip, proto.splitlines()):
        if line.startswith("//"):
            comments.append(line.removeprefix("//").strip())
        else:
            yield line, " ".join(comments)
            comments = []


def _calls(lines: list[tuple[str, str]]) -> Iterator[str]:
    yield "## Calls\n"
    for line, doc in lines:
        if rpc := _RPC.fullmatch(line):
            name, is_in, request, is_out, response = rpc.groups()
            yield f"### {name}\n"
            yield f"`{is_in or ''}{request}` → `{is_out or ''}{response}`\n"
            yield f"{doc}\n"


def _messages(lines: list[tuple[str, str]]) -> Iterator[str]:
    yield "## Messages\n"
    yield "A message that is not listed has no fields.\n"
    fields: list[_Field] = []
    choice = ""
    for line, doc in lines:
        if opens := _OPENS.fullmatch(line):
            kind, name, is_empty = opens.groups()
            if kind == "oneof":
                choice = name
            elif not is_empty:
                yield f"### {name}\n"
                yield from [f"{doc}\n"] if doc else []
        elif field := _FIELD.fullmatch(line):
            label, type_, name, number = field.groups()
            meaning = f"{doc} (one of `{choice}`)" if choice else doc
            fields.append(_Field(int(number), name, f"{label or ''} {type_}".strip(), meaning))
        elif line == "}" and choice:
            choice = ""
        elif line == "}" and fields:
            yield from _table(fields)
            fields = []


def _table(fields: list[_Field]) -> Iterator[str]:
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for field in sorted(fields):
        meaning = field.doc.replace("|", "&#124;")
        yield f"| `{field.name}` = {field.number} | {field.type} | {meaning} |"
    yield ""


def _errors() -> Iterator[str]:
    yield "## Error codes\n"
    yield (
        "The values of `Error.code`, with the gRPC status of the call. A client that does not know "
        "a code uses `retryable`.\n"
    )
    yield "| code | status | retryable |"
    yield "|---|---|---|"
    for code, cls in sorted(error_classes().items()):
        error = cls("")
        yield f"| `{code}` | {status_name(error)} | {'yes' if error.retryable else 'no'} |"
    yield ""
