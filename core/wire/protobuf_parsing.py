"""Parsing protobuf messages: whole ones only.

The library takes a message without its required fields (also one whose enum holds a value that it
doesn't know, which leaves the field out). Nobody here may see such a message.
"""

import re
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

M = TypeVar("M", bound=Message)

# Escapes outside of these make the library warn, not refuse, and mean nothing anyway.
_WELL_ESCAPED = re.compile(
    r"""(?:[^\\]|\\(?:[abfnrtv\\'"]|[0-3][0-7]{0,2}|[4-7][0-7]?(?![0-7])|x[0-9a-fA-F]{1,2}))*"""
)


def parse(kind: type[M], data: bytes) -> M:
    """The message. Raises DecodeError: no message, or required fields are missing."""
    return _whole(kind.FromString(data))


def parse_text(kind: type[M], text: str) -> M:
    """The message in protobuf's text form. Raises DecodeError as ``parse`` does."""
    if not _WELL_ESCAPED.fullmatch(text):
        raise DecodeError("an escape that means nothing")
    try:
        return _whole(text_format.Parse(text, kind()))
    except text_format.ParseError as error:
        raise DecodeError(str(error)) from error


def _whole(message: M) -> M:
    if not message.IsInitialized():
        raise DecodeError(f"{message.DESCRIPTOR.name} without its required fields")
    return message
