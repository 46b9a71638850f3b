"""The record with which a proxy registers in the metadata store (rule PRX-2).

A record may hold fields that this program does not know: a later version has added them, and a
cluster runs two versions while it is upgraded. A field that may be absent has a default here.
"""

from typing import Any, NamedTuple

from ..core.protocol.errors import CorruptionError
from ..core.protocol.metadata_record import decode_metadata_record, encode_metadata_record

_FORMAT = 1
_REQUIRED: dict[str, type | tuple[type, ...]] = {"address": str, "region": str, "accepting": bool}
_OPTIONAL: dict[str, tuple[type, object]] = {
    "addresses": (dict, {}),
    "version": (str, ""),
    "operator_address": (str, ""),
}
"""Type and default of each field that may be absent."""


class ProxyMember(NamedTuple):
    """A registered proxy."""

    id: str
    """The member id, new with each session of the proxy."""
    address: str
    """The host:port that names the proxy. Clients and other proxies connect to it, except for those
    in a region of ``addresses``."""
    region: str
    is_accepting: bool
    """True if the proxy accepts streams that it does not own yet."""
    addresses: tuple[tuple[str, str], ...] = ()
    """Pairs (region, host:port): where clients of that region connect."""
    version: str = ""
    """The version of the proxy's program; "" if it does not say."""
    operator_address: str = ""
    """The host:port that alone serves administrative calls; "": ``address`` serves them, too."""

    def address_for(self, viewer_region: str) -> str:
        """Return the host:port to which a client of a region connects."""
        return dict(self.addresses).get(viewer_region, self.address)

    def encode(self) -> bytes:
        """Encode the value of the member's node."""
        fields: dict[str, Any] = {
            "address": self.address,
            "region": self.region,
            "accepting": self.is_accepting,
        }
        if self.addresses:
            fields["addresses"] = dict(self.addresses)
        if self.version:
            fields["version"] = self.version
        if self.operator_address:
            fields["operator_address"] = self.operator_address
        return encode_metadata_record(_FORMAT, fields)

    @classmethod
    def decode(cls, id_: str, data: bytes) -> "ProxyMember":
        """Decode the value of a member's node. Raises CorruptionError, ForeignDataError."""
        what = f"proxy {id_}"
        types = {**_REQUIRED, **{name: kind for name, (kind, _) in _OPTIONAL.items()}}
        fields = decode_metadata_record(
            what,
            data,
            version=_FORMAT,
            fields=types,
            optional={name: default for name, (_, default) in _OPTIONAL.items()},
            ignores_unknown=True,
        )
        addresses = fields["addresses"]
        if not all(isinstance(address, str) for address in addresses.values()):
            raise CorruptionError(f"{what}: addresses are not text: {addresses!r}")
        return cls(
            id_,
            fields["address"],
            fields["region"],
            fields["accepting"],
            tuple(sorted(addresses.items())),
            fields["version"],
            fields["operator_address"],
        )
