"""A pack returns what was put in it, and no changed byte is believed."""

import hashlib
from random import Random

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.index.pack import (
    ChainRecord,
    PackedChain,
    decode_pack,
    encode_pack,
    pack_record,
)
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.tests.unit.coldstore.index.index_world import NAMESPACE, IndexWorld


@pytest.fixture
def chains(index_world: IndexWorld) -> list[ChainRecord]:
    """Return the records of three chains, one of them deleted."""
    found: list[ChainRecord] = []

    async def make() -> None:
        for number in range(2):
            await index_world.append(f"s{number}", 2 + number)
        listing = await scan_manifests(index_world.cold)
        for folder in sorted(listing.folders):
            held = {one.lssn: one for one in listing.manifests if one.folder == folder}
            found.append(ChainRecord(folder, listing.tips[folder], held, False))
        found.append(ChainRecord(found[0].folder._replace(stream="t"), None, {}, True))

    index_world.run(make())
    return found


def decoded(data: bytes) -> list[PackedChain]:
    return decode_pack(NAMESPACE, "key", hashlib.sha256(data).hexdigest(), data)


def record_of(chain: PackedChain) -> ChainRecord:
    return ChainRecord(chain.folder, chain.tip(), chain.manifests(chain.sizes), chain.is_whole)


def test_records_return_from_a_pack(chains: list[ChainRecord]) -> None:
    found = decoded(encode_pack(pack_record(one, 7) for one in reversed(chains)))
    assert [record_of(one) for one in found] == chains
    assert {one.version for one in found} == {7}
    assert list(found[1].manifests({3})) == [3]


def test_no_damage_is_believed(chains: list[ChainRecord]) -> None:
    data = encode_pack(pack_record(one, 7) for one in chains)
    sha256, random = hashlib.sha256(data).hexdigest(), Random(3)
    for _ in range(300):
        at = random.randrange(len(data))
        flipped = data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
        for damaged in (flipped, data[:at], data + b"x"):
            with pytest.raises(CorruptionError, match="key"):
                decode_pack(NAMESPACE, "key", sha256, damaged)
            try:  # with the digest of the damaged bytes: an error or the same records
                found = [record_of(one) for one in decoded(damaged)]
            except CorruptionError:
                continue
            assert [one.manifests for one in found] == [one.manifests for one in chains]
