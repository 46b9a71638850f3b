"""The addresses with which a client begins, from the names that it was given (rule PRX-51)."""

from collections.abc import Sequence
from typing import Protocol

from ....core.protocol.errors import RhumblineError, UnavailableError
from ...proxy_uri import ProxyUri


class SeedResolver(Protocol):
    """Finds addresses by name. Names are resolved again whenever no listed proxy responds."""

    async def addresses_of(self, name: str) -> Sequence[str]:
        """Return host:port for each address of a ``host:port``. Raises UnavailableError."""
        ...

    async def addresses_of_service(self, name: str) -> Sequence[str]:
        """Return host:port for each server in the SRV records of a name, the preferred first.

        Raises UnavailableError.
        """
        ...


class NoResolver:
    """Leaves names as they are, for the transport to resolve."""

    async def addresses_of(self, name: str) -> Sequence[str]:
        """See ``SeedResolver.addresses_of``."""
        return (name,)

    async def addresses_of_service(self, name: str) -> Sequence[str]:
        """Raises UnavailableError."""
        raise UnavailableError(f"{name}: SRV records cannot be resolved here")


async def resolve_seeds(uri: ProxyUri, resolver: SeedResolver) -> tuple[str, ...]:
    """Return the addresses of all names that can be resolved.

    Raises UnavailableError if there are none, or another error of the resolver.
    """
    resolve = resolver.addresses_of_service if uri.is_srv else resolver.addresses_of
    found: dict[str, None] = {}
    failure: RhumblineError | None = None
    for name in uri.names:
        try:
            found.update(dict.fromkeys(await resolve(name)))
        except RhumblineError as error:
            failure = error
    if not found:
        raise failure or UnavailableError(f"no address of {', '.join(uri.names)}")
    return tuple(found)
