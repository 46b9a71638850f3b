"""The newer program of a simulated upgrade reads both formats, and today's code only its own."""

import pytest

from rhumbline.chaos.simulation.upgrade.program import (
    in_next_format,
    in_todays_format,
    is_next_format,
)
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.protocol.errors import ForeignDataError
from rhumbline.core.protocol.segments import Segment, decode_segment, encode_segment

PATH = "/rhumbline/namespaces/sim/streams/stream/segments/1"
SEGMENT = encode_segment(Segment(1, "this one", 5, 1, 0))


def test_values_return_from_the_next_format_byte_for_byte() -> None:
    value = in_next_format(PATH, SEGMENT)
    assert is_next_format(value)
    assert not is_next_format(SEGMENT)
    assert in_todays_format(value) == in_todays_format(SEGMENT) == SEGMENT


def test_code_of_today_refuses_the_next_format() -> None:
    with pytest.raises(ForeignDataError):
        decode_segment(1, in_next_format(PATH, SEGMENT))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (Paths().feature_level, b'{"v":1,"level":2,"raising":0}'),
        (PATH, b""),
        (PATH, b"BookieMetadataFormatVersion\t3\n"),
    ],
)
def test_what_all_programs_read_never_changes(path: str, data: bytes) -> None:
    assert in_next_format(path, data) == data
