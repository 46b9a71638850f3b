"""Packs: immutable objects with copies of the tips and manifests of many chains.

A pack is a magic number, the length of its directory, the directory and the blobs. The directory is
a JSON list with an item for each chain, in the order of the blobs; a blob is the compressed tip and
manifests of one chain, so a reader decompresses only the chains that it needs. The name of a pack
contains its SHA-256, which a reader compares before it uses anything of it.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError
from ..archive.archive_folder import ArchiveFolder
from ..archive.manifest import Manifest
from ..proof.chain_tip import ChainTip

_MAGIC = b"RLMP0001"
_LENGTH = struct.Struct("<I")
_LEVEL = 1
"""Compression level of zlib. Digests, most of a manifest, are no smaller at higher levels."""


class ChainRecord(NamedTuple):
    """The state of a chain at one time, to be joined with its records in older packs."""

    folder: ArchiveFolder
    tip: ChainTip | None
    """None: the archive of the stream does not exist any more."""
    manifests: Mapping[int, Manifest]
    """By LSSN. They replace those of older packs."""
    is_whole: bool
    """True if the records of older packs do not count."""


@dataclass(frozen=True, slots=True)
class PackedChain:
    """A chain in a pack, compressed."""

    pack: str
    """The key of the pack, for messages."""
    folder: ArchiveFolder
    version: int
    """The generation of the index that was the first with this state of the chain."""
    is_whole: bool
    covered: range
    """The segments that the archive must hold, according to the tip."""
    tip_bytes: int
    """0 if the archive of the stream does not exist any more."""
    sizes: Mapping[int, int]
    """Size of the manifest of each segment, in order of LSSN."""
    blob: bytes

    def tip(self) -> ChainTip | None:
        """Return the tip. Raises CorruptionError."""
        data = self.unpack()[: self.tip_bytes]
        tip = ChainTip.decode(data) if data else None
        if tip is not None and (tip.folder, tip.covered) != (self.folder, self.covered):
            raise CorruptionError(f"{self.pack}: a tip is in the place of another one")
        return tip

    def manifests(self, wanted: Container[int]) -> dict[int, Manifest]:
        """Return those of the ``wanted`` manifests that are here. Raises CorruptionError."""
        found = {lssn: Manifest.decode(data) for lssn, data in self.encoded(wanted).items()}
        for lssn, manifest in found.items():
            if (manifest.folder, manifest.lssn) != (self.folder, lssn):
                raise CorruptionError(f"{self.pack}: a manifest is in the place of another one")
        return found

    def encoded(self, wanted: Container[int]) -> dict[int, bytes]:
        """Return those of the ``wanted`` manifests that are here, encoded."""
        data, at = self.unpack(), self.tip_bytes
        found: dict[int, bytes] = {}
        for lssn, size in self.sizes.items():
            if lssn in wanted:
                found[lssn] = data[at : at + size]
            at += size
        return found

    def unpack(self) -> bytes:
        """Return the tip and the manifests, one after another. Raises CorruptionError."""
        expected = self.tip_bytes + sum(self.sizes.values())
        decoder = zlib.decompressobj()
        try:
            data = decoder.decompress(self.blob, expected + 1)
        except zlib.error as error:
            raise CorruptionError(f"{self.pack}: {error}") from error
        if len(data) != expected or not decoder.eof or decoder.unused_data:
            raise CorruptionError(f"{self.pack}: the size of a chain differs from the directory")
        return data


def pack_record(record: ChainRecord, version: int) -> PackedChain:
    """Return a record as packs hold it."""
    covered = range(0) if record.tip is None else record.tip.covered
    tip = b"" if record.tip is None else record.tip.encode()
    encoded = {lssn: record.manifests[lssn].encode() for lssn in sorted(record.manifests)}
    return packed(record.folder, version, record.is_whole, covered, tip, encoded)


def packed(
    folder: ArchiveFolder, version: int, is_whole: bool, covered: range, tip: bytes,
    manifests: Mapping[int, bytes],
) -> PackedChain:  # fmt: skip
    """Return a chain whose tip and manifests are encoded, in order of LSSN, as packs hold it."""
    sizes = {lssn: len(data) for lssn, data in manifests.items()}
    blob = zlib.compress(b"".join([tip, *manifests.values()]), _LEVEL)
    return PackedChain("", folder, version, is_whole, covered, len(tip), sizes, blob)


def encode_pack(chains: Iterable[PackedChain]) -> bytes:
    """Return the content of a pack."""
    ordered = sorted(chains, key=lambda one: one.folder)
    directory = json.dumps([_row(one) for one in ordered], separators=(",", ":")).encode()
    start = [_MAGIC, _LENGTH.pack(len(directory)), directory]
    return b"".join([*start, *(one.blob for one in ordered)])


def _row(one: PackedChain) -> list[object]:
    covered = [one.covered.start, one.covered.stop]
    sizes = list(one.sizes.items())
    names = [one.folder.stream, one.folder.stream_id]
    return [*names, one.version, one.is_whole, covered, one.tip_bytes, sizes, len(one.blob)]


def decode_pack(namespace: str, key: str, sha256: str, data: bytes) -> list[PackedChain]:
    """Return the chains of a pack. Raises CorruptionError, which names the key."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CorruptionError(f"{key}: the content differs from the SHA-256 in the name")
    start = len(_MAGIC) + _LENGTH.size
    if len(data) < start or not data.startswith(_MAGIC):
        raise CorruptionError(f"{key}: not a pack of manifests")
    at = start + _LENGTH.unpack_from(data, len(_MAGIC))[0]
    found: list[PackedChain] = []
    try:
        for row in json.loads(data[start:at]):
            stream, stream_id, version, is_whole, covered, tip_bytes, sizes, blob_bytes = row
            folder = ArchiveFolder(namespace, stream, stream_id)
            blob = data[at : at + blob_bytes]
            found.append(
                PackedChain(
                    key, folder, version, is_whole, range(*covered), tip_bytes, dict(sizes), blob
                )
            )
            at += blob_bytes
    except (ValueError, TypeError) as error:
        raise CorruptionError(f"{key}: not a directory of a pack: {error}") from error
    if at != len(data):
        raise CorruptionError(f"{key}: the sizes in the directory differ from that of the object")
    return found
