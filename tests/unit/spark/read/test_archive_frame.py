"""The name of a stream is taken from the path of its files."""

import re

import pytest

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder, MergedName, part_name
from rhumbline.spark.read.archive_frame import STREAM_IN_PATH

NAMES = [
    part_name(7, 0, "0123456789abcdef"),
    str(MergedName(False, 7, 9, 1, 2)),
    str(MergedName(True, 7, 9, 1, 2)),
]


@pytest.mark.parametrize("stream", ["visits", "_staged", "abc", "staged-7"])
@pytest.mark.parametrize("name", NAMES)
def test_the_stream_of_a_file_is_found_in_its_path(stream: str, name: str) -> None:
    folder = ArchiveFolder("test", stream, "0123456789ab")
    found = re.search(STREAM_IN_PATH, f"s3a://bucket/archive/{folder.part(name)}")
    assert found is not None
    assert found[1] == stream
