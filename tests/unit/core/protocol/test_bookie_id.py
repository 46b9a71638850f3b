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


def test_names_ids_and_labels_may_be_as_long_as_the_rules_say() -> None:
    longest = "aZ09:-_." + "x" * 192
    assert bookie_name(mint_bookie_id(longest, 2**32 - 1)) == longest
    assert mint_bookie_id("b", 0) == "b@00000000"
    assert check_bookie_id(longest) == longest
    assert check_bookie_id(f"{longest}@0123456f") == f"{longest}@0123456f"
    assert check_region("a") == "a"
    assert check_region("e-u_1." + "x" * 57) == "e-u_1." + "x" * 57


@pytest.mark.parametrize("text", ["readonly", "x" * 201, "", "a@1a2b3c4d\n"])
def test_reserved_and_overlong_ids_are_rejected(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_bookie_id(text)


@pytest.mark.parametrize("incarnation", [-1, 2**32])
def test_an_incarnation_has_32_bits(incarnation: int) -> None:
    with pytest.raises(AssertionError):
        mint_bookie_id("b", incarnation)
