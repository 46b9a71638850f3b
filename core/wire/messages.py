"""Parsing protobuf messages: whole ones only.

The library takes a message without its required fields (also one whose enum holds a value that it
doesn't know, which leaves the field out). Nobody here may see such a message.
"""

from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

M = TypeVar("M", bound=Message)


def parse(kind: type[M], data: bytes) -> M:
    """The message. Raises DecodeError: no message, or required fields are missing."""
    return _whole(kind.FromString(data))


def parse_text(kind: type[M], text: str) -> M:
    """The message in protobuf's text form. Raises DecodeError as ``parse`` does."""
    try:
        return _whole(text_format.Parse(text, kind()))
    except text_format.ParseError as error:
        raise DecodeError(str(error)) from error


def _whole(message: M) -> M:
    if not message.IsInitialized():
        raise DecodeError(f"{message.DESCRIPTOR.name} without {message.FindInitializationErrors()}")
    return message
