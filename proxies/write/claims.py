"""Who owns a stream, and where its home is, in the metadata store.

::

    /rhumbline/owners/<namespace>/<stream>    ephemeral: member id and address of the owner
    /rhumbline/homes/<namespace>/<stream>     the region whose write proxies should serve it

A claim only keeps proxies from taking a stream away from each other all the time. What makes a
second owner harmless is the writer's claim in the log, and fencing.
"""

from collections.abc import Callable
from typing import NamedTuple

from ...core.log.metadata.paths import check_name
from ...core.protocol.bookie_id import check_region
from ...core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from ...core.protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...core.runtime.metadata_store import MetadataStore, Session, Version, Watch
from ..membership import ProxyMember

OWNERS = "/rhumbline/owners"
HOMES = "/rhumbline/homes"

_FORMAT = 1
_TRIES_MAX = 16


class OwnershipClaim(NamedTuple):
    """A stream's owner."""

    member_id: str
    address: str
    version: Version


class Claims:
    """The claims of all streams."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def owner(self, namespace: str, stream: str) -> OwnershipClaim | None:
        """Who owns it now; None: nobody. Raises MetadataUnavailableError."""
        try:
            value = await self._store.get(_path(OWNERS, namespace, stream))
        except NoNodeError:
            return None
        fields = decode_metadata_record(
            f"owner of {namespace}/{stream}",
            value.data,
            version=_FORMAT,
            fields={"member": str, "address": str},
        )
        return OwnershipClaim(fields["member"], fields["address"], value.version)

    async def take(
        self, namespace: str, stream: str, me: ProxyMember, session: Session
    ) -> OwnershipClaim:
        """Claims it for as long as ``session`` lives, unless somebody else has it.

        Returns the claim that is there: ours or the other's. A repeat is safe. Raises
        SessionLostError, MetadataUnavailableError.
        """
        path = _path(OWNERS, namespace, stream)
        data = encode_metadata_record(_FORMAT, {"member": me.id, "address": me.address})
        for _ in range(_TRIES_MAX):
            try:
                _, version = await self._store.create(path, data, ephemeral=session)
            except (NodeExistsError, IndeterminateError):
                found = await self.owner(namespace, stream)
                if found is not None:
                    return found
            else:
                return OwnershipClaim(me.id, me.address, version)
        raise MetadataUnavailableError(f"stream {stream}: claimed and given up again and again")

    async def release(self, namespace: str, stream: str, claim: OwnershipClaim) -> None:
        """Gives a claim up, if it is still there. A repeat is safe."""
        path = _path(OWNERS, namespace, stream)
        for _ in range(_TRIES_MAX):
            try:
                await self._store.delete(path, expect=claim.version)
            except IndeterminateError:
                continue
            except (NoNodeError, BadVersionError):
                return
            return
        raise MetadataUnavailableError(f"{path}: no answer to a deletion")

    def watch(self, namespace: str, stream: str, callback: Callable[[], None]) -> Watch:
        """Calls back after the claim changed. A hint."""
        return self._store.watch(_path(OWNERS, namespace, stream), callback)

    # --- homes ----------------------------------------------------------------------------------

    async def home(self, namespace: str, stream: str) -> str:
        """The home region; "" if none was said. Raises MetadataUnavailableError."""
        try:
            value = await self._store.get(_path(HOMES, namespace, stream))
        except NoNodeError:
            return ""
        return value.data.decode("utf-8", "replace")

    async def set_home(self, namespace: str, stream: str, region: str) -> None:
        """Says where the stream should be served. Raises InvalidArgumentError for a bad name."""
        path = _path(HOMES, namespace, stream)
        data = check_region(region).encode()
        for _ in range(_TRIES_MAX):
            try:
                await self._store.create(path, data)
            except NodeExistsError:
                pass
            except IndeterminateError:
                continue
            else:
                return
            try:
                await self._store.put(path, data)
            except (NoNodeError, IndeterminateError):
                continue
            return
        raise MetadataUnavailableError(f"{path}: no answer")

    async def forget_home(self, namespace: str, stream: str) -> None:
        """The stream was deleted. A repeat is safe."""
        try:
            await self._store.delete(_path(HOMES, namespace, stream))
        except (NoNodeError, IndeterminateError):
            return  # a home that stays behind is only a preference


def _path(root: str, namespace: str, stream: str) -> str:
    return f"{root}/{check_name('namespace', namespace)}/{check_name('stream', stream)}"
