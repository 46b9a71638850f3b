"""The interface of the namespaces of a cluster."""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from ...protocol.bookie_id import Region
from ..policy import StreamPolicy


class ListedNamespace(NamedTuple):
    """The name of a namespace and the region in whose metadata store it is; None: the global."""

    name: str
    region: Region | None


class LogNamespaces(Protocol):
    """Creates, lists and deletes the namespaces of a cluster."""

    async def create(self, name: str, policy: StreamPolicy, region: Region | None = None) -> None:
        """Create a namespace in the metadata store of ``region``, or in the global one.

        Raises NamespaceExistsError, InvalidArgumentError (invalid name), ConfigurationError.
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete an empty namespace. Raises NoSuchNamespaceError, InvalidArgumentError."""
        ...

    def all(self, *, after: str | None = None) -> AsyncIterator[ListedNamespace]:
        """Iterate over the namespaces of the cluster that follow ``after``, by name."""
        ...
