"""Generates the reference page of the gRPC service from the .proto file and its comments."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...core.protocol.errors import (
    DuplicateRecordError,
    NotOwnerError,
    OverRateError,
    RhumblineError,
    TooManyRequestsError,
    error_classes,
)
from ...proxies.client.sender_state import SENDER
from ...proxies.rpc.grpc_status import STATUSES, error_of_status, is_retryable, status_name
from .state_machines import tables_of

PROTO = Path(__file__).parents[2] / "proxies" / "rpc" / "rhumbline.proto"

_HEAD = """\
# gRPC API

Generated from `proxies/rpc/rhumbline.proto`; do not edit. Every write and read proxy serves
`rhumbline.v1.Rhumbline`, `grpc.health.v1.Health` and server reflection (v1alpha). A proxy with
`proxy.operator_port` serves administrative calls and reflection at that port only
([SEC-44](../protocol/security.md#SEC-44)). To run proxies and use them from Python, see [Run
proxies](../how-to/run-proxies.md).
"""
_RULES = """\
## Record sets

`AppendItem.record_set` and `ReadResponse.entries` hold [record sets](../storage-format.md#record-sets):
columns behind a header of 96 bytes, with a CRC32C of each, optionally compressed with zstd. That
section has the layout of every byte and examples to test a decoder with. A simple producer leaves
`record_set` empty and sends `payloads`; the proxy then makes the set.

## Decoded records

A client that has no decoder sets `decodes_records` in its first ReadRequest and gets `records`
instead of `entries` ([PRX-37](../protocol/proxies.md#PRX-37)). It grants credit in records
(`credit_records`), in bytes of payloads, keys and headers (`credit_bytes`) or in both: the proxy sends
while both are above 0. To continue after a record, also after any failure, it reads from the record's `position`
with `slot` + 1.

The proxy pays for it: 0.9 µs of CPU time for each record of 100 bytes in sets of 100, 2 µs for
1,000 bytes, 12 µs for a set of one record (Python 3.11, one core), so about a million small records per
second and core. Without decoded records it forwards entries that were encoded once for all readers.
On the wire a record takes 40 bytes more than its payload. A proxy serves readers of both kinds from
the same cached blocks.

## Retries

### Appending

A producer is in one of these states, as in the thin client ([its
diagram](state-machines.md#sender-of-a-thin-client)). An answer with positions changes none of them.

{sender}

A producer numbers its sets (`producer`: 16 random bytes of its own, `first_sequence`: 0, then the
number of records before the set), so that a set that is sent again is stored once. Which event an
answer or the end of the call is, and what follows, is decided by the `Error` of the answer or of the
details of the status: [the table of codes](#error-codes) has a column for it. The steps are:

| step | what the client does |
|---|---|
| owner | goes to the address in `owner`; to another proxy if it is empty |
| another | goes to an address that is not in `tried`, in the order of [PRX-52](../protocol/proxies.md#PRX-52); once all were tried it clears `tried` and begins again |
| here | sends again to the same address after a pause |
| here, later | sends again to the same address after `retry_after_ms` |
| stored | the set is in the stream, and its position is not known: the append succeeded |
| give up | ends with the error: a repeat is refused again |

1. At the first event `REFUSE` it sends nothing more until every set in flight has an answer or the
   call has ended. Then it sends all sets without positions again, in order, the first of them with
   `restarts` and the addresses in `tried`. It may simply end the call, which settles all of them.
2. It pauses before each attempt except the first two: at first 10 ms, then doubled up to 250 ms, with
   jitter.
3. Sets without a producer id are not sent again after `append-outcome-unknown` or a call that ended
   without an answer: they may be stored twice.
4. A new process continues the numbers of an old one only if it knows the sequence of the first record
   without an acknowledgement *and* sends the same records again. Otherwise it takes a new producer id.
5. After 125 ms of silence while answers are due it sends an empty AppendRequest; after 250 ms it may
   ask another proxy with ProbeProxy about the silent one. If that is lost, or after 1.5 s without a
   message or such an answer that it is alive, or after 10 s without a message, the call has failed:
   *another*.
6. At the deadline of the oldest set it gives up. Sets that were sent and have no answer are then
   perhaps stored.

### Reading

| in state | event | next state | what the client does |
|---|---|---|---|
| opening | response with `start` | reading | keeps the position and its `stream_id` |
| opening, reading | error whose step is *owner*, *another* or *here* | opening | goes there, with the addresses that failed in `tried`, from its position |
| opening | no response for 10 s | opening | another proxy |
| reading | entries or records | reading | moves its position behind them, clears `tried`, grants what it consumed |
| reading | an empty response | reading | nothing: it is a heartbeat |
| reading | the call ends without `is_end`, and `stops_at_end` was not set | opening | the same proxy once, then another |
| reading | 3.5 s of silence with `heartbeat_ms` = 1000 | opening | ends the call; another proxy |
| reading | `is_end`, or the end of a call with `stops_at_end` | done | |
| opening, reading | `truncated` | failed | may read on from `first_active`: records were lost to it |
| opening, reading | `invalid-position` | failed | the stream was deleted, perhaps created again |
| opening, reading | any other error | failed | |

### Other calls

Calls are repeated like appends, with the same steps. CreateStream and DeleteStream are not: when one
of them ends without an answer, DescribeStream tells the outcome.

### Statuses without an Error

A status without details comes from the transport, or from something between client and proxy:

{statuses}

## Clients in other languages

The `.proto` file is `proxies/rpc/rhumbline.proto`; it imports nothing, so any protoc makes stubs from
it. Small clients in Go and TypeScript follow the rules above: see [Use other
languages](../how-to/use-other-languages.md), which also says what they do not do.
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
    rules = rules.replace("{statuses}", "\n".join(_statuses()))
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


def _statuses() -> Iterator[str]:
    yield "| status | step |"
    yield "|---|---|"
    for status in STATUSES:
        yield f"| {status} | {_step(error_of_status(status, ''))} |"


def _step(error: RhumblineError) -> str:
    """Return the step of a client that may repeat its request, as the thin client takes it."""
    if isinstance(error, NotOwnerError):
        return "owner"
    if isinstance(error, DuplicateRecordError):
        return "stored"
    if not is_retryable(error):
        return "give up"
    if isinstance(error, OverRateError):
        return "here, later"
    return "here" if isinstance(error, TooManyRequestsError) else "another"


def _errors() -> Iterator[str]:
    yield "## Error codes\n"
    yield (
        "The values of `Error.code`, with the gRPC status and the step of a client that "
        "repeats its request ([Retries](#retries)). A client that does not know a code goes to "
        "another proxy if it is `retryable`, and gives up otherwise.\n"
    )
    yield "| code | status | retryable | step |"
    yield "|---|---|---|---|"
    for code, cls in sorted(error_classes().items()):
        error = cls("")
        is_later = "yes" if error.retryable else "no"
        yield f"| `{code}` | {status_name(error)} | {is_later} | {_step(error)} |"
    yield ""
