"""A backup or inventory that is damaged, too new or of another kind is refused."""

import json
from random import Random

import pytest

from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.rebuild.sealed_file import seal, unseal

CONTENT = {"a": [1, 2, 3], "b": "text"}


def test_content_survives_and_every_damage_is_refused() -> None:
    data = seal("inventory", CONTENT)
    assert unseal("inventory", data, "f") == CONTENT
    random = Random(1)
    for _ in range(300):
        broken = bytearray(data)
        broken[random.randrange(len(broken))] ^= 1 << random.randrange(8)
        try:
            assert unseal("inventory", bytes(broken), "f") == CONTENT
        except (CorruptionError, ForeignDataError):
            continue
    for cut in range(0, len(data), 7):
        with pytest.raises((CorruptionError, ForeignDataError)):
            unseal("inventory", data[:cut], "f")


def test_other_kinds_and_newer_versions_are_refused() -> None:
    with pytest.raises(ForeignDataError, match="is not a metadata backup"):
        unseal("metadata backup", seal("inventory", CONTENT), "f")
    line, _, body = seal("inventory", CONTENT).partition(b"\n")
    header = json.loads(line)
    header["min_reader"] = 2
    with pytest.raises(ForeignDataError, match="needs a reader of version 2"):
        unseal("inventory", json.dumps(header).encode() + b"\n" + body, "f")
    header.update(min_reader=1, bytes=1)
    with pytest.raises(CorruptionError):
        unseal("inventory", json.dumps(header).encode() + b"\n" + body, "f")
