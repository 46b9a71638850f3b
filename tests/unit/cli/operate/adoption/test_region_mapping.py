"""Regions of Apache BookKeeper's bookies, from a file and from a topology script."""

import pytest

from rhumbline.cli.operate.adoption.region_mapping import (
    AdoptedBookie,
    mapping_of_paths,
    parse_mapping,
)
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import ConfigurationError

MAPPING = """
[regions]
"10.1.0.7:3181" = "rome"
"bk4.example" = "oslo"
"10.1.0.0/16" = "bonn"
"10.1.9.0/24" = "oslo"
"fd00:1::/32" = "rome"
"""


def bookie(text: str, host: str = "") -> AdoptedBookie:
    return AdoptedBookie(BookieId(text), host)


def test_the_most_specific_entry_decides() -> None:
    mapping = parse_mapping(MAPPING)
    assert mapping.region_of(bookie("10.1.0.7:3181", "10.1.0.7")) == "rome"
    assert mapping.region_of(bookie("b", "bk4.example")) == "oslo"
    assert mapping.region_of(bookie("10.1.0.8:3181", "10.1.0.8")) == "bonn"
    assert mapping.region_of(bookie("10.1.9.8:3181", "10.1.9.8")) == "oslo"
    assert mapping.region_of(bookie("b", "fd00:1::5")) == "rome"


def test_a_bookie_that_is_not_named_has_no_region() -> None:
    mapping = parse_mapping(MAPPING)
    assert mapping.region_of(bookie("10.2.0.7:3181", "10.2.0.7")) is None
    assert mapping.region_of(bookie("uuid")) is None
    assert mapping.region_of(bookie("b", "other.example")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regions", "the mapping is not TOML"),
        ("", r"no table \[regions\]"),
        ("regions = 1", r"no table \[regions\]"),
        ("[regions]\na = 1", "the region of a is not a string: 1"),
        ("[regions]\na = 'No Region'", "a: bad region or rack 'No Region'"),
        ("[regions]\n'10.0.0.1/8' = 'eu'", "10.0.0.1/8 is not a network"),
    ],
)
def test_wrong_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_mapping(text)


def test_the_first_part_of_a_path_is_the_region() -> None:
    mapping = mapping_of_paths(["10.1.0.7", "bk4"], "/bonn/r7\n/oslo/hall2/r1\n")
    assert mapping.region_of(bookie("10.1.0.7:3181", "10.1.0.7")) == "bonn"
    assert mapping.region_of(bookie("b", "bk4")) == "oslo"


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("", "printed 0 paths for 1 hosts"),
        ("/a/b /c/d", "printed 2 paths for 1 hosts"),
        ("/default-rack", "is not /region/rack"),
        ("eu/r1", "is not /region/rack"),
        ("/No_Region!/r1", "h: bad region"),
    ],
)
def test_a_wrong_output_of_the_script_is_refused(printed: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        mapping_of_paths(["h"], printed)
