"""Bookie identity: ``<name>@<8 hex digits of its incarnation>``.

Formatting storage mints a new incarnation, so an id names one life of one bookie's data: an empty
bookie that comes back at the same address has another id, and none of its "I never had it" can be
taken for the old one's (bugs B13, B14). An id without ``@`` is an Apache bookie's: it has no
incarnation that we could check. Region is fixed for the life of an id.
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
    """The id of a freshly formatted bookie; ``incarnation`` is 32 random bits."""
    assert 0 <= incarnation < 2**32
    if not _NAME.fullmatch(name) or name == "readonly":
        raise InvalidArgumentError(
            f"bad bookie name {name!r}: letters, digits and : - _ . (at most 200), not 'readonly'"
        )
    return BookieId(f"{name}@{incarnation:08x}")


def check_bookie_id(text: str) -> BookieId:
    """Accepts an id as found in metadata or on a wire. Raises InvalidArgumentError otherwise."""
    if not _ID.fullmatch(text) or text == "readonly":
        raise InvalidArgumentError(f"bad bookie id {text[:80]!r}")
    return BookieId(text)


def bookie_name(bookie: BookieId) -> str:
    """The part of the id that survives re-formatting."""
    return bookie.partition("@")[0]


def is_incarnate(bookie: BookieId) -> bool:
    """Whether the id names an incarnation (ours), rather than an address (Apache's)."""
    return "@" in bookie


def check_region(text: str) -> Region:
    """Accepts a region or rack label. Raises InvalidArgumentError otherwise."""
    if not _LABEL.fullmatch(text):
        raise InvalidArgumentError(
            f"bad region or rack {text[:80]!r}: lower-case letters, digits, - _ . (at most 63)"
        )
    return Region(text)
