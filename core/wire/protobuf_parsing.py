"""Strict parsing of protobuf messages: a message without its required fields is rejected.

The protobuf library accepts such messages. It also drops an enum field whose value it does not
know, so a required field may be missing although it was sent.
"""

import re
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

M = TypeVar("M", bound=Message)

# For other escapes, which are meaningless, the library warns instead of failing.
_WELL_ESCAPED = re.compile(
    r"""(?:[^\\]|\\(?:[abfnrtv\\'"]|[0-3][0-7]{0,2}|[4-7][0-7]?(?![0-7])|x[0-9a-fA-F]{1,2}))*"""
)


def parse(kind: type[M], data: bytes) -> M:
    """Parse a message. Raises DecodeError, also if required fields are missing."""
    return _checked(kind.FromString(data))


def parse_text(kind: type[M], text: str) -> M:
    """Parse a message in protobuf's text form. Raises DecodeError as ``parse`` does."""
    if not _WELL_ESCAPED.fullmatch(text):
        raise DecodeError("invalid escape sequence")
    try:
        return _checked(text_format.Parse(text, kind()))
    except text_format.ParseError as error:
        raise DecodeError(str(error)) from error


def _checked(message: M) -> M:
    if not message.IsInitialized():
        raise DecodeError(f"{message.DESCRIPTOR.name} lacks required fields")
    return message
