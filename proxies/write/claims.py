"""Ownership claims and home regions of streams in the metadata store (rules PRX-1, PRX-4).

::

    /rhumbline/owners/<namespace>/<stream>    ephemeral: member id and address of the owner
    /rhumbline/homes/<namespace>/<stream>     the region whose write proxies should serve it

A claim only keeps proxies from taking a stream away from each other. A second owner is harmless
because of the writer's claim in the log, and because its ledger is fenced.
"""

from collections.abc import Callable
from typing import NamedTuple

from ...core.log.metadata.paths import check_name
from ...core.metadata import idempotent_writes
from ...core.protocol.bookie_id import check_region
from ...core.protocol.errors import (
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from ...core.protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...core.runtime.metadata_store import MetadataStore, Session, Version, Watch
from ..registration import ProxyMember

OWNERS = "/rhumbline/owners"
HOMES = "/rhumbline/homes"

_FORMAT = 1
_TRIES_MAX = 16


class OwnershipClaim(NamedTuple):
    """A claim of one proxy on a stream."""

    member_id: str
    address: str
    version: Version


class Claims:
    """The claims and home regions of all streams."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def owner(self, namespace: str, stream: str) -> OwnershipClaim | None:
        """Return the present claim on a stream, or None. Raises MetadataUnavailableError."""
        try:
            value = await self._store.get(_path(OWNERS, namespace, stream))
        except NoNodeError:
            return None
        fields = decode_metadata_record(
            f"owner of {namespace}/{stream}",
            value.data,
            version=_FORMAT,
            fields={"member": str, "address": str},
            ignores_unknown=True,
        )
        return OwnershipClaim(fields["member"], fields["address"], value.version)

    async def acquire(
        self, namespace: str, stream: str, own_member: ProxyMember, session: Session
    ) -> OwnershipClaim:
        """Claim a stream for as long as ``session`` lasts, unless another proxy has claimed it.

        Returns the claim that exists afterwards, which may be the other proxy's. Safe to repeat.
        Raises SessionLostError, MetadataUnavailableError.
        """
        path = _path(OWNERS, namespace, stream)
        data = encode_metadata_record(
            _FORMAT, {"member": own_member.id, "address": own_member.address}
        )
        for _ in range(_TRIES_MAX):
            try:
                _, version = await self._store.create(path, data, ephemeral=session)
            except (NodeExistsError, IndeterminateError):
                found = await self.owner(namespace, stream)
                if found is not None:
                    return found
            else:
                return OwnershipClaim(own_member.id, own_member.address, version)
        raise MetadataUnavailableError(
            f"stream {stream}: the claim changed during {_TRIES_MAX} attempts"
        )

    async def release(self, namespace: str, stream: str, claim: OwnershipClaim) -> None:
        """Delete a claim if it still exists. Safe to repeat.

        Raises MetadataUnavailableError, IndeterminateError.
        """
        path = _path(OWNERS, namespace, stream)
        await idempotent_writes.discard(self._store, path, claim.version)

    def watch(self, namespace: str, stream: str, callback: Callable[[], None]) -> Watch:
        """Call back after the claim changed. This is a hint: read the claim again."""
        return self._store.watch(_path(OWNERS, namespace, stream), callback)

    # --- homes ----------------------------------------------------------------------------------

    async def home(self, namespace: str, stream: str) -> str:
        """Return the home region, or "" if none was set. Raises MetadataUnavailableError."""
        try:
            value = await self._store.get(_path(HOMES, namespace, stream))
        except NoNodeError:
            return ""
        return value.data.decode("utf-8", "replace")

    async def set_home(self, namespace: str, stream: str, region: str) -> None:
        """Set the home region of a stream. Raises InvalidArgumentError for an invalid name."""
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
        raise MetadataUnavailableError(f"{path}: outcome of {_TRIES_MAX} writes is unknown")

    async def delete_home(self, namespace: str, stream: str) -> None:
        """Delete the home region of a deleted stream. Safe to repeat."""
        try:
            await self._store.delete(_path(HOMES, namespace, stream))
        except (NoNodeError, IndeterminateError):
            return  # a home that stays behind is only a preference


def _path(root: str, namespace: str, stream: str) -> str:
    return f"{root}/{check_name('namespace', namespace)}/{check_name('stream', stream)}"
