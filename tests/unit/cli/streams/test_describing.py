"""The route of an append: the proxy that should serve a stream, and the round trips to it."""

from dataclasses import dataclass
from typing import cast

import pytest

from rhumbline.cli.streams.describing import read_route
from rhumbline.client.connect import Client
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.proxies.balance.assignment_store import change_table
from rhumbline.proxies.balance.assignments import AssignmentTable
from rhumbline.proxies.membership import WRITE, ProxyMembership
from rhumbline.proxies.routing import stream_key
from rhumbline.proxies.write.claims import Claims
from rhumbline.tests.support.fakes.log_world import LogWorld

KEY = stream_key("test", "s")
POLICY = StreamPolicy(quorum=Quorum(3, 3, 2, 2))


@dataclass
class ViewedFrom:
    """A client of a region."""

    region: str | None
    opened: Namespace

    def namespace(self) -> Namespace:
        return self.opened


async def joined(world: LogWorld, address: str, region: str) -> ProxyMembership:
    membership = ProxyMembership(
        world.store,
        world.runtime,
        roles=(WRITE,),
        address=address,
        region=region,
        session_ttl_ms=60_000,
    )
    await membership.join()
    return membership


async def route(
    world: LogWorld, region: str | None, policy: StreamPolicy = POLICY
) -> dict[str, object]:
    viewer = ViewedFrom(region, world.open_namespace())
    return await read_route(cast(Client, viewer), "s", policy)


@pytest.mark.parametrize(("region", "trips"), [("east", 0), ("west", 1), (None, None)])
async def test_route_depends_on_the_region_of_the_viewer(
    world: LogWorld, region: str | None, trips: int | None
) -> None:
    owner, other = await joined(world, "e:1", "east"), await joined(world, "w:1", "west")
    claims = Claims(world.store)
    await claims.set_home("test", "s", "east")
    assert owner.session is not None
    await claims.acquire("test", "s", owner.own_member, owner.session)
    shown = await route(world, region)
    assert (shown["owner"], shown["owner_region"], shown["home_region"]) == ("e:1", "east", "east")
    assert (shown["preferred_owner"], shown["is_pinned"]) == ("e:1", False)
    assert (shown["viewer_region"], shown["owner_round_trips"]) == (region, trips)
    assert shown["commit_round_trips"] == 1
    for membership in (owner, other):
        await membership.leave()


async def _pin(world: LogWorld, address: str) -> None:
    pinned = AssignmentTable({}, {KEY: address})
    await change_table(world.store, "east", lambda _: pinned)


async def test_route_without_an_owner_is_that_to_the_pinned_proxy(world: LogWorld) -> None:
    memberships = [await joined(world, f"e:{n}", "east") for n in range(1, 4)]
    await Claims(world.store).set_home("test", "s", "east")
    one_region = StreamPolicy(quorum=Quorum(3, 3, 2, 1))
    for address in ("e:1", "e:2", "e:3"):
        await _pin(world, address)
        shown = await route(world, "east", one_region)
        assert (shown["owner"], shown["preferred_owner"], shown["is_pinned"]) == (
            None,
            address,
            True,
        )
        assert (shown["owner_round_trips"], shown["commit_round_trips"]) == (0, 0)
    for membership in memberships:
        await membership.leave()
