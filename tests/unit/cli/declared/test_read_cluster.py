"""Nothing is concluded from a list of namespaces that may not be complete."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

import pytest

from rhumbline.cli.declared.declared_state import DeclaredCluster
from rhumbline.cli.declared.read_cluster import read_all, read_compared
from rhumbline.client.connect import Client
from rhumbline.core.log.api.log_namespaces import ListedNamespace
from rhumbline.core.protocol.errors import MetadataUnavailableError


class RegionAlone:
    """The namespaces of a client whose global store does not respond."""

    async def all(self, *, may_be_partial: bool = True) -> AsyncIterator[ListedNamespace]:
        if not may_be_partial:
            raise MetadataUnavailableError("the global store does not respond")
        yield ListedNamespace("local", None)


async def test_namespaces_are_not_left_out_while_the_global_store_does_not_respond() -> None:
    """The namespaces of the global store were missing from an export, without an error."""
    client = cast(Client, SimpleNamespace(namespaces=RegionAlone()))
    with pytest.raises(MetadataUnavailableError):
        await read_all(client)
    with pytest.raises(MetadataUnavailableError):
        await read_compared(client, DeclaredCluster(), prunes=True)
