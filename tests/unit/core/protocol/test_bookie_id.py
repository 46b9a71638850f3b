"""Bookie ids and region labels: round trips, and rejection of malformed values."""

import pytest

from rhumbline.core.protocol.bookie_id import (
    bookie_name,
    check_bookie_id,
    check_region,
    has_incarnation,
    mint_bookie_id,
)
from rhumbline.core.protocol.errors import InvalidArgumentError


def test_a_minted_id_names_its_incarnation() -> None:
    bookie = mint_bookie_id("eu-1", 0x1A2B3C4D)
    assert bookie == "eu-1@1a2b3c4d"
    assert bookie_name(bookie) == "eu-1"
    assert has_incarnation(bookie)
    assert not has_incarnation(check_bookie_id("127.0.0.1:3181"))


@pytest.mark.parametrize("name", ["", "readonly", "a b", "a@b", "ä", "x" * 201])
def test_malformed_bookie_names_are_rejected(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        mint_bookie_id(name, 1)


@pytest.mark.parametrize("text", ["a@1", "a@1A2B3C4D", "a@1a2b3c4d5", "a#1a2b3c4d", "/x"])
def test_malformed_bookie_ids_are_rejected(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_bookie_id(text)


@pytest.mark.parametrize("text", ["", "EU", "-a", "a/b", "x" * 64])
def test_malformed_regions_are_rejected(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_region(text)
