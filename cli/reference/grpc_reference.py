"""Generates the reference page of the gRPC service from the .proto file and its comments."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...core.protocol.errors import error_classes
from ...proxies.rpc.grpc_status import status_name

PROTO = Path(__file__).parents[2] / "proxies" / "rpc" / "rhumbline.proto"

_HEAD = """\
# gRPC API

Generated from `proxies/rpc/rhumbline.proto`; do not edit. Every write and read proxy serves
`rhumbline.v1.Rhumbline`, `grpc.health.v1.Health` and server reflection (v1alpha). To run proxies
and use them from Python, see [Run proxies](../how-to/run-proxies.md).
"""
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
    lines = list(_commented(PROTO.read_text(encoding="utf-8")))
    return "\n".join([_HEAD, *_calls(lines), *_messages(lines), *_errors()])


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
