"""The head of an index: the packs that make one generation of it (rule ARC-44)."""

from dataclasses import asdict, dataclass
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError, ForeignDataError
from ..archive.archive_folder import ArchiveFolder
from ..proof.sealed_json import decode_sealed, encode_sealed
from .index_keys import PackName, head_key

FORMAT = 1
HEAD_BYTES_MAX = 16 << 20


class PackEntry(NamedTuple):
    """A pack in the list of a head."""

    name: PackName
    size_bytes: int


@dataclass(frozen=True, slots=True)
class IndexHead:
    """One generation of an index."""

    namespace: str
    generation: int
    packs: tuple[PackEntry, ...]
    """Oldest first: what a newer pack says of a chain counts."""
    unindexed: tuple[ArchiveFolder, ...] = ()
    """Chains without a usable tip. Readers list them, and report what is wrong."""
    absorbed: tuple[str, ...] = ()
    """Names of the notes whose changes the packs contain. The next writer deletes them."""

    def encode(self) -> bytes:
        """Return the content of the head: sealed JSON."""
        fields = asdict(self)
        fields["packs"] = [[str(one.name), one.size_bytes] for one in self.packs]
        fields["unindexed"] = [[one.stream, one.stream_id] for one in self.unindexed]
        return encode_sealed(FORMAT, fields)

    @classmethod
    def decode(cls, namespace: str, generation: int, data: bytes) -> "IndexHead":
        """Decode a head. Raises CorruptionError and ForeignDataError, which name its key."""
        key = head_key(namespace, generation)
        try:
            fields = decode_sealed("index head", FORMAT, data)
            packs = tuple(_pack_entry(*one) for one in fields.pop("packs"))
            unindexed = tuple(ArchiveFolder(namespace, *one) for one in fields.pop("unindexed"))
            absorbed = tuple(map(str, fields.pop("absorbed")))
            head = cls(**fields, packs=packs, unindexed=unindexed, absorbed=absorbed)
        except (CorruptionError, ForeignDataError) as error:
            raise type(error)(f"{key}: {error}") from error
        except (TypeError, KeyError, ValueError) as error:
            raise CorruptionError(f"{key}: not an index head: {error}") from error
        if (head.namespace, head.generation) != (namespace, generation):
            raise CorruptionError(f"{key}: the head of {head.namespace}, {head.generation}")
        return head


def _pack_entry(name: str, size_bytes: int) -> PackEntry:
    parsed = PackName.parse(name)
    if parsed is None:
        raise ValueError(f"{name} is not the name of a pack")
    return PackEntry(parsed, int(size_bytes))
