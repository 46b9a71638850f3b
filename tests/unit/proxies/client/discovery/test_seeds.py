"""Names of proxies become addresses as long as one of them can be resolved."""

from collections.abc import Sequence

import pytest

from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.proxies.client.discovery.seeds import NoResolver, resolve_seeds
from rhumbline.proxies.proxy_uri import parse_proxies


class SomeNames(NoResolver):
    async def addresses_of(self, name: str) -> Sequence[str]:
        if name.startswith("lost"):
            raise UnavailableError(f"{name}: no such name")
        return (name.replace("two", "10.0.0.1"), "10.0.0.2:1")


async def test_one_name_that_can_be_resolved_is_enough() -> None:
    found = await resolve_seeds(parse_proxies("grpc://lost:1,two:1,two:2"), SomeNames())
    assert found == ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2"), "each once, in order"
    with pytest.raises(UnavailableError, match="lost:1: no such name"):
        await resolve_seeds(parse_proxies("grpc://lost:1"), SomeNames())


async def test_without_a_resolver_names_are_left_to_the_transport() -> None:
    assert await resolve_seeds(parse_proxies("grpc://a:1,b:2"), NoResolver()) == ("a:1", "b:2")
    with pytest.raises(UnavailableError, match="SRV"):
        await resolve_seeds(parse_proxies("grpc+srv://a.b"), NoResolver())
