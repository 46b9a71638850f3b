"""Bookie ids: ``<name>@<8 hex digits of the incarnation>`` (rules BKE-3, PLC-10).

Formatting a bookie's storage begins a new incarnation, so an id names one incarnation of its data.
An empty bookie that returns at the same address has another id, and its "never had it" responses
are not mistaken for those of the old one (bugs B13, B14). An id without ``@`` belongs to an Apache
bookie and has no incarnation to check. The region of an id never changes.
"""

import re
from typing import NewType

from .errors import InvalidArgumentError

BookieId = NewType("BookieId", str)
Region = NewType("Region", str)

_NAME = re.compile(r"[a-zA-Z0-9:\-_.]{1,200}")
_ID = re.compile(r"[a-zA-Z0-9:\-_.]{1,200}(@[0-9a-f]{8})?")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9\-_.]{0,61}[a-z0-9])?")


def mint_bookie_id(name: str, incarnation: int) -> BookieId:
    """Return the id of a newly formatted bookie; ``incarnation`` is 32 random bits."""
    assert 0 <= incarnation < 2**32
    if not _NAME.fullmatch(name) or name == "readonly":
        raise InvalidArgumentError(
            f"bad bookie name {name!r}: letters, digits and : - _ . (at most 200), not 'readonly'"
        )
    return BookieId(f"{name}@{incarnation:08x}")


def check_bookie_id(text: str) -> BookieId:
    """Return ``text`` if it is a valid bookie id. Raises InvalidArgumentError otherwise."""
    if not _ID.fullmatch(text) or text == "readonly":
        raise InvalidArgumentError(f"bad bookie id {text[:80]!r}")
    return BookieId(text)


def bookie_name(bookie: BookieId) -> str:
    """Return the part of the id that stays the same when the bookie is formatted again."""
    return bookie.partition("@")[0]


def has_incarnation(bookie: BookieId) -> bool:
    """True if the id names an incarnation; False for the id (an address) of an Apache bookie."""
    return "@" in bookie


def check_region(text: str) -> Region:
    """Return ``text`` if it is a region or rack label. Raises InvalidArgumentError otherwise."""
    if not _LABEL.fullmatch(text):
        raise InvalidArgumentError(
            f"bad region or rack {text[:80]!r}: lower-case letters, digits, - _ . (at most 63)"
        )
    return Region(text)
