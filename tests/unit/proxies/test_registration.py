"""The registration of a proxy survives the round trip, and upgrades of a cluster."""

import json

import pytest

from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.proxies.registration import ProxyMember

MEMBER = ProxyMember(
    "a1", "one:1", "east", True, (("north", "far:9"), ("west", "far:8")), "0.1.0", "one:2"
)


@pytest.mark.parametrize("member", [MEMBER, ProxyMember("a1", "one:1", "", False)])
def test_member_survives_the_round_trip(member: ProxyMember) -> None:
    assert ProxyMember.decode(member.id, member.encode()) == member


def test_record_of_an_earlier_version_is_read() -> None:
    data = b'{"v":1,"address":"one:1","region":"east","accepting":true}'
    assert ProxyMember.decode("a1", data) == ProxyMember("a1", "one:1", "east", True)


def test_fields_with_their_default_are_left_out() -> None:
    """A program that does not know a field then reads the same bytes as before (rule UPG-5)."""
    plain = ProxyMember("a1", "one:1", "east", True)
    assert json.loads(plain.encode()) == {
        "v": 1,
        "address": "one:1",
        "region": "east",
        "accepting": True,
    }
    assert json.loads(MEMBER.encode())["operator_address"] == "one:2"


def test_fields_of_a_later_version_are_ignored() -> None:
    """A proxy with a field that the others did not know was no member for them."""
    data = json.dumps({**json.loads(MEMBER.encode()), "shoe_size": 44}).encode()
    assert ProxyMember.decode("a1", data) == MEMBER


@pytest.mark.parametrize(
    "field",
    [
        {"address": 1},
        {"accepting": "yes"},
        {"addresses": {"west": 8}},
        {"addresses": []},
        {"operator_address": 2},
    ],
)
def test_wrong_types_are_refused(field: dict[str, object]) -> None:
    data = json.dumps({**json.loads(MEMBER.encode()), **field}).encode()
    with pytest.raises(CorruptionError):
        ProxyMember.decode("a1", data)


def test_later_format_is_refused() -> None:
    data = json.dumps({**json.loads(MEMBER.encode()), "v": 2}).encode()
    with pytest.raises(ForeignDataError):
        ProxyMember.decode("a1", data)


def test_clients_of_a_region_connect_to_the_address_for_it() -> None:
    assert MEMBER.address_for("west") == "far:8"
    assert MEMBER.address_for("east") == MEMBER.address_for("") == "one:1"
