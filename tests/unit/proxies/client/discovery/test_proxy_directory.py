"""The order in which a client tries the proxies that it knows."""

import asyncio
from collections import Counter
from random import Random

import pytest

from rhumbline.core.protocol.errors import NotOwnerError, TooManyRequestsError, UnavailableError
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.discovery.proxy_directory import ProxyDirectory
from rhumbline.proxies.membership import READ, WRITE
from rhumbline.proxies.registration import ProxyMember
from rhumbline.proxies.rendezvous import preference
from rhumbline.proxies.routing import Routing
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc.proxy_listing import ListedProxy
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

pytestmark = pytest.mark.run_by(runner=run_jumping)

EAST = ("e1:1", "e2:1", "e3:1")
WEST = ("w1:1", "w2:1")


def listed(
    address: str,
    region: str,
    *roles: str,
    is_accepting: bool = True,
    link: str = "",
    operators: str = "",
) -> ListedProxy:
    member = ProxyMember("", address, region, is_accepting, operator_address=operators)
    return ListedProxy(member, link or address, frozenset(roles or (WRITE, READ)))


ALL = [listed(a, "east") for a in EAST] + [listed(a, "west") for a in WEST]


def directory(*seeds: str, seed: int = 1, region: str = "") -> ProxyDirectory:
    config = DiscoveryConfig(eject_failures=2, eject_ms=1_000)
    return ProxyDirectory(seeds, Random(seed), config, region=region)


async def test_seeds_serve_until_the_first_list_in_the_given_order() -> None:
    known = directory("b:1", "a:1")
    assert known.any_proxies() == known.writers_of("n", "s") == known.readers_of("n", "s")
    assert known.any_proxies() == ("b:1", "a:1")
    known.set_listed([], "east")
    assert known.any_proxies() == ("b:1", "a:1"), "an empty list says nothing"
    known.set_listed(ALL, "east")
    assert set(known.any_proxies()[:5]) == {*EAST, *WEST}
    assert known.any_proxies()[5:] == ("b:1", "a:1"), "seeds are the last resort"


async def test_miss_goes_to_the_proxy_that_all_proxies_prefer() -> None:
    known = directory("a:1", region="west")
    known.set_listed(ALL, "east")
    for number in range(20):
        name = f"s{number}"
        key = f"n/{name}"
        assert known.writers_of("n", name)[:2] == tuple(preference(key, WEST))
        assert known.readers_of("n", name)[:2] == tuple(preference(key, WEST))
        known.set_home(("n", name), "east")
        assert known.writers_of("n", name)[:3] == tuple(preference(key, EAST))
        assert known.writers_of("n", name)[3:5] == tuple(preference(key, WEST))
        assert known.readers_of("n", name)[:2] == tuple(preference(key, WEST))


async def test_stream_without_a_home_region_has_the_order_of_the_proxies() -> None:
    """It was taken for one of the client's region, and the first call was redirected."""
    known = directory("a:1", region="west")
    known.set_listed(ALL, "east")
    members = [proxy.member for proxy in ALL]
    for number in range(20):
        known.set_home(("n", f"s{number}"), "")
        best = Routing(members).preferred(f"n/s{number}", "")
        assert best is not None
        assert known.writers_of("n", f"s{number}")[0] == best.address


async def test_only_proxies_of_the_role_that_accept_are_likely() -> None:
    known = directory("a:1", region="east")
    drained = listed("e1:1", "east", is_accepting=False)
    known.set_listed([drained, listed("e2:1", "east", READ), listed("e3:1", "east", WRITE)], "")
    assert known.writers_of("n", "s")[0] == "e3:1"
    assert known.readers_of("n", "s")[0] == "e2:1"
    assert set(known.writers_of("n", "s")) == {"e1:1", "e2:1", "e3:1", "a:1"}, "none is left out"
    assert known.any_proxies()[2:] == ("e1:1", "a:1")


async def test_clients_spread_over_all_proxies_of_their_region() -> None:
    first: Counter[str] = Counter()
    for seed in range(300):
        known = directory("w1:1", "e1:1", seed=seed)
        known.set_listed(ALL, "east")
        assert known.region == "west", "that of the first seed"
        first[known.any_proxies()[0]] += 1
    assert set(first) == set(WEST)
    assert min(first.values()) > 100


async def test_region_is_that_of_the_responding_proxy_if_no_seed_is_listed() -> None:
    known = directory("name.example:1")
    known.set_listed(ALL, "east")
    assert known.region == "east"
    known.set_listed(ALL, "west")
    assert known.region == "east", "it does not change later"


async def test_proxy_is_named_by_one_address_and_reached_at_another() -> None:
    known = directory("link:9")
    known.set_listed([listed("e1:1", "east", link="link:9"), listed("e2:1", "east")], "east")
    assert known.name_of("link:9") == "e1:1"
    assert known.connect_address("e1:1") == "link:9"
    assert known.connect_address("e2:1") == known.name_of("e2:1") == "e2:1"
    assert sorted(known.any_proxies()) == ["e1:1", "e2:1"], "a seed is not a second proxy"


async def test_failing_proxy_comes_last_for_a_bounded_time() -> None:
    known = directory("a:1", region="east")
    known.set_listed(ALL, "east")
    doubts = []
    known.on_doubt = lambda: doubts.append(1)
    first = known.writers_of("n", "s")[0]
    with recorded_log("rhumbline.proxies.client.discovery.proxy_directory") as log:
        for error in (NotOwnerError("no"), TooManyRequestsError("no")):
            known.report(first, UnavailableError("it does not respond"))
            known.report(first, error)  # a response
        assert known.writers_of("n", "s")[0] == first
        for _ in range(3):
            known.report(first, UnavailableError("it does not respond"))
        assert known.writers_of("n", "s")[-1] == first
        assert known.any_proxies()[-1] == first
        assert known.statistics() == {"proxies": 5, "ejected": 1, "ejections": 1}
        await asyncio.sleep(1.1)
        assert known.writers_of("n", "s")[0] == first
        known.report(first, None)
        known.report(first, None)
    assert len(doubts) == 5, "each failure puts the list in doubt"
    assert log.events() == ["proxy ejected", "proxy returned"]
    (ejected,) = log.fields("proxy ejected")
    assert 750 <= ejected.pop("pause_ms") <= 1_000
    assert ejected == {"proxy": first, "error": "UnavailableError: it does not respond"}
    assert log.fields("proxy returned") == [{"proxy": first}]


async def test_all_proxies_stay_usable_when_all_fail() -> None:
    known = directory("a:1", region="east")
    known.set_listed(ALL, "east")
    before = known.writers_of("n", "s")
    for address in before:
        for _ in range(2):
            known.report(address, UnavailableError("down"))
    assert known.writers_of("n", "s") == before


async def test_unknown_proxy_that_another_one_names_is_learned_and_the_list_read_again() -> None:
    known = directory("a:1")
    doubts = []
    known.on_doubt = lambda: doubts.append(1)
    known.learn("a:1")
    assert not doubts
    known.learn("new:1")
    known.learn("new:1")
    assert doubts == [1]
    assert known.any_proxies() == ("a:1", "new:1")
    for number in range(100):
        known.learn(f"p{number}:1")
    assert len(known.any_proxies()) <= 65, "bounded"
    known.set_listed(ALL, "east")
    assert set(known.any_proxies()) == {*EAST, *WEST, "a:1"}


async def test_administrative_calls_go_to_the_address_for_operators() -> None:
    known = directory("e1:1")
    assert known.address_for("e1:1", methods.SET_POLICY) == "e1:1", "nothing is known yet"
    known.set_listed([listed("e1:1", "east", link="near:1", operators="e1:9"), *ALL[1:]], "east")
    assert known.address_for("e1:1", methods.SET_POLICY) == "e1:9"
    assert known.address_for("e1:1", methods.APPEND) == "near:1"
    assert known.address_for("e1:1", methods.DESCRIBE_STREAM) == "near:1"
    assert known.address_for("e2:1", methods.SET_POLICY) == "e2:1", "it has one address"
    assert known.name_of("e1:9") == known.name_of("near:1") == "e1:1"


async def test_client_that_was_given_an_address_for_operators_prefers_those() -> None:
    known = directory("e1:9")
    known.set_listed([listed("e1:1", "east", operators="e1:9"), *ALL[1:]], "east")
    assert "e1:9" not in known.any_proxies(), "it is no further proxy"
    assert known.address_for("e1:1", methods.LIST_PROXIES) == "e1:9"
    assert known.address_for("e1:1", methods.DESCRIBE_STREAM) == "e1:9"
    assert known.address_for("e1:1", methods.APPEND) == "e1:1"


async def test_address_that_a_refusal_names_is_used_until_the_next_list() -> None:
    known = directory("e1:1")
    doubts: list[None] = []
    known.on_doubt = lambda: doubts.append(None)
    assert not known.set_served_at("e1:1", methods.SET_POLICY, "")
    assert not known.set_served_at("e1:1", methods.SET_POLICY, "e1:1"), "it was called there"
    assert known.set_served_at("e1:1", methods.SET_POLICY, "e1:9")
    assert known.address_for("e1:1", methods.SEAL_STREAM) == "e1:9"
    assert known.address_for("e1:1", methods.APPEND) == "e1:1"
    assert known.set_served_at("e1:9", methods.DESCRIBE_TOPIC, "e1:1"), "given for data"
    assert known.address_for("e1:9", methods.APPEND) == "e1:1"
    assert len(doubts) == 2
    for number in range(200):
        known.set_served_at(f"p{number}:1", methods.SET_POLICY, "x:9")
    assert known.address_for("p0:1", methods.SET_POLICY) == "p0:1", "they are bounded"
    known.set_listed(ALL, "east")
    assert known.address_for("e1:1", methods.SEAL_STREAM) == "e1:1"
