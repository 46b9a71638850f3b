"""Checks the format pages: hex examples are what the code writes, layout tables have its sizes.

An example is a `text` block behind the comment `<!-- example: name -->`. In a hex example each line
is an offset, bytes in hexadecimal (or `00 * count`), and a meaning. A layout is a table behind the
comment `<!-- layout: name -->` whose first columns are offset and size.
"""

import re
from pathlib import Path

import pytest
from crc32c import crc32c

from rhumbline.core.bookie import ledger_records
from rhumbline.core.bookie.identity import Identity, cookie_of
from rhumbline.core.bookie.index.index_file import FOOTER_BYTES
from rhumbline.core.bookie.log import log_format
from rhumbline.core.bookie.log.end_marker import SLOT_BYTES
from rhumbline.core.bookie.start.start_record import StartRecord
from rhumbline.core.bookie.start.start_record import encode as encode_start
from rhumbline.core.log.metadata.stream_metadata import StreamHead
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.protocol import record_set
from rhumbline.core.protocol.attributes.attribute_columns import attribute_builder
from rhumbline.core.protocol.attributes.attribute_values import Attributes
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.ledger_metadata import DigestType, Fragment, LedgerMetadata
from rhumbline.core.protocol.metadata_record import encode_metadata_record
from rhumbline.core.wire import availability, cookie, entry, handshake, ledger_metadata, v2, v3

ROOT = Path(__file__).resolve().parents[2]
STORAGE, WIRE = "docs/storage-format.md", "docs/wire.md"

_BLOCK = re.compile(r"<!-- example: ([\w-]+) -->\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"<!-- layout: ([\w-]+) -->\n\n((?:\|.*\n)+)")
_HEX_LINE = re.compile(r" *(\d+)  (?:00 \* (\d+)|([0-9a-f]+))(?:  .*)?")

PASSWORD = b""
KEY = entry.master_key(PASSWORD)
CRC32C = entry.EntryDigest(DigestType.CRC32C, PASSWORD)
BOOKIE = BookieId("b1@00c0ffee")
HELLO = entry.encode_entry(CRC32C, 7, 0, -1, 5, b"hello")
READ_LAC = v3.read_lac_request(1, 7)


def commit_group() -> bytes:
    body = log_format.encode_record(HELLO)
    header = log_format.GroupHeader(1, 0x0102030405060708, 0, 0, 0, len(body), crc32c(body))
    return log_format.encode_group_header(header) + body


def ledger_record() -> bytes:
    ledger = ledger_records.LedgerRecord(7, KEY)
    ledger.is_fenced = ledger.is_proven = True
    ledger.lac, ledger.lac_changed_ms = 0, 1_700_000_000_000
    return ledger.encode()


def two_records() -> bytes:
    return record_set.encode_record_set(
        [b"hello", b"world!"], first_txid=1, last_txid=1, created_ms=1_700_000_000_000
    )


def records_with_attributes() -> bytes:
    rows = [
        Attributes(b"user-7", {"trace": b"ab"}, 1_699_999_999_000),
        Attributes(None, None, None),
    ]
    return record_set.encode_record_set(
        [b"hello", b"world!"],
        first_txid=1,
        last_txid=1,
        created_ms=1_700_000_000_000,
        attributes=attribute_builder(rows),
    )


def metadata_of_ledger() -> bytes:
    bookies = tuple(BookieId(name) for name in ("a@00000001", "b@00000002", "c@00000003"))
    return ledger_metadata.encode(
        LedgerMetadata(
            ledger_id=7,
            ensemble_size=3,
            write_quorum=3,
            ack_quorum=2,
            fragments=(Fragment(0, bookies),),
            custom={"rhumbline.r": b"0:2"},
            creation_token=9,
        )
    )


def text_of_cookie() -> bytes:
    instance = "1e82fdf8-974a-4b95-80ea-aba530a10713"
    return cookie.encode(cookie_of(Identity(BOOKIE, instance, Region("eu"), Region("r1"))))


def json_records() -> bytes:
    head = StreamHead(3, "9f2c61d0a4b7e853", 2, "9f86d081884c").encode()
    subscription = encode_metadata_record(1, {"position": "2:41:7@9f86d081884c", "generation": 0})
    return head + b"\n" + subscription + b"\n"


def start_record() -> bytes:
    record = StartRecord(
        3, "9f2c61d0a4b7e853", 5 << 40, "", marker="98dfd5.56fcdc51", is_final=True
    )
    return encode_start(record) + b"\n"


HEX = {
    STORAGE: {
        "commit-group": commit_group(),
        "ledger-record": ledger_record(),
        "record-set": two_records(),
        "record-set-attributes": records_with_attributes(),
        "ledger-metadata": metadata_of_ledger(),
    },
    WIRE: {
        "auth-hello": v2.encode_auth(handshake.PLUGIN, handshake.encode_hello(BOOKIE)),
        "add-request": v2.encode_add(KEY, HELLO),
        "add-response": v2.encode_add_response(v2.Code.OK, 7, 0),
        "batch-read": v2.encode_batch_read(7, 0, 38, count_max=100, bytes_max=2 << 20),
        "read-lac-request": v3.frame(READ_LAC),
        "read-lac-response": v3.frame(v3.read_lac_response(READ_LAC, v3.Status.NO_ENTRY)),
        "lac-body": entry.encode_lac(CRC32C, 7, 0),
    },
}
PLAIN = {
    STORAGE: {
        "cookie": text_of_cookie(),
        "json-records": json_records(),
        "start-record": start_record(),
    },
    WIRE: {},
}
SIZES = {
    STORAGE: {
        "file-header": log_format.FILE_HEADER_BYTES,
        "group-header": log_format.GROUP_HEADER_BYTES,
        "record": log_format.RECORD_HEADER_BYTES,
        "index-footer": FOOTER_BYTES,
        "end-marker": SLOT_BYTES,
        "ledger-record": len(ledger_record()),
        "record-set": record_set.HEADER.size,
    },
    WIRE: {
        "auth-payload": len(handshake.encode_hello(BOOKIE)) - len(BOOKIE),
        "v2-header": v2.HEADER.size,
        "entry": entry.ENTRY_HEADER_BYTES,
        "list-of-entries": len(availability.encode([])),
    },
}
"""Bytes of the fields of fixed size at the start of each layout."""


def page(name: str) -> str:
    return (ROOT / name).read_text()


def examples(name: str) -> dict[str, str]:
    return dict(_BLOCK.findall(page(name)))


def parse_hex(text: str) -> bytes:
    """The bytes of a hex example, whose offsets must be those of its bytes."""
    data = b""
    for line in text.splitlines():
        match = _HEX_LINE.fullmatch(line)
        assert match, f"not a line of a hex example: {line!r}"
        offset, zeros, digits = match.groups()
        assert int(offset) == len(data), f"offset {offset} is written at byte {len(data)}"
        data += bytes(int(zeros)) if zeros else bytes.fromhex(digits)
    return data


def fixed_fields(table: str) -> list[tuple[int, int]]:
    """Offset and size of the leading rows in which both are numbers."""
    found = []
    for row in table.splitlines()[2:]:
        offset, size = (cell.strip() for cell in row.split("|")[1:3])
        if not (offset.isdecimal() and size.isdecimal()):
            break
        found.append((int(offset), int(size)))
    return found


@pytest.mark.parametrize("name", [STORAGE, WIRE])
def test_examples_are_what_the_code_writes(name: str) -> None:
    shown = examples(name)
    assert shown.keys() == HEX[name].keys() | PLAIN[name].keys()
    for example, data in HEX[name].items():
        assert parse_hex(shown[example]).hex() == data.hex(), example
    for example, data in PLAIN[name].items():
        assert shown[example].encode() == data, example


@pytest.mark.parametrize("name", [STORAGE, WIRE])
def test_layouts_have_the_sizes_of_the_code(name: str) -> None:
    layouts = dict(_TABLE.findall(page(name)))
    assert layouts.keys() == SIZES[name].keys()
    for layout, size in SIZES[name].items():
        end = 0
        for offset, field_bytes in fixed_fields(layouts[layout]):
            assert offset == end, f"{layout}: the field at {offset} does not begin at {end}"
            end += field_bytes
        assert end == size, layout


def test_code_decodes_the_examples() -> None:
    shown = examples(STORAGE)
    group = parse_hex(shown["commit-group"])
    header = log_format.decode_group_header(group)
    assert header is not None
    ((_, found, is_state),) = log_format.iterate_records(group[log_format.GROUP_HEADER_BYTES :])
    assert not is_state
    assert entry.decode_entry(CRC32C, 7, 0, found).payload == b"hello"
    records = ledger_records.LedgerRecords()
    records.apply(parse_hex(shown["ledger-record"]))
    assert records.ledgers[7].is_fenced
    (decoded,) = record_set.decode_entry(parse_hex(shown["record-set"]))
    assert decoded.payloads() == [b"hello", b"world!"]
    metadata = ledger_metadata.decode(7, parse_hex(shown["ledger-metadata"]))
    assert metadata.quorum_at(0).min_regions == 2


def test_response_codes_on_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| \(?(\d+)\)? \| (\d+) \|", page(WIRE), re.MULTILINE)
    shown = {name: (int(code), int(status)) for name, code, status in rows}
    known = {code.name: (int(code), int(v3.Status[code.name])) for code in v2.Code}
    known["UNKNOWN_STATE"] = (int(v2.Code.IO), int(v3.Status.UNKNOWN_STATE))  # in v2 sent as IO
    assert shown == known


def test_ledger_path_on_the_page_is_that_of_the_code() -> None:
    assert f"`{Paths().ledger(7).removeprefix('/ledgers/')}`" in page(STORAGE)


def test_hex_parser_rejects_wrong_offsets() -> None:
    assert parse_hex("   0  0102  two\n   2  00 * 3  zeros\n   5  ff\n") == b"\1\2\0\0\0\xff"
    with pytest.raises(AssertionError):
        parse_hex("   0  0102\n   3  03\n")
