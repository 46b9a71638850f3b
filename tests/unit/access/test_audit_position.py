"""A position is decoded as it was encoded, and a damaged one is an error."""

import pytest

from rhumbline.access.audit_position import AuditPosition, decode_position
from rhumbline.core.protocol.errors import ConfigurationError

POSITION = AuditPosition(bytes(range(16)), "ab" * 32, 7, 90, 12)


def test_a_position_survives_its_file() -> None:
    assert decode_position(POSITION.encode()) == POSITION
    assert decode_position(AuditPosition(bytes(16)).encode()) == AuditPosition(bytes(16))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{", "["),
        ('"offset": 7', '"offset": 91'),
        ('"offset": 7', '"offset": -1'),
        ('"sequence": 12', '"sequence": -12'),
        ('"sequence": 12', '"sequence": null'),
        ('"sequence": ', '"other": '),
        ("0001", "01"),
        ("abab", "ab"),
    ],
)
def test_a_damaged_position_is_an_error(old: str, new: str) -> None:
    text = POSITION.encode()
    assert old in text
    with pytest.raises(ConfigurationError, match="not a position"):
        decode_position(text.replace(old, new, 1))
