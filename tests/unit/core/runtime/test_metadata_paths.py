"""Which paths of the metadata store are well-formed."""

import pytest

from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.runtime.metadata_store import PATH_BYTES_MAX, check_path

assert PATH_BYTES_MAX == 1024


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a",
        "/a/b",
        "/a.b/.c/..d/e..",
        "/a/.rhumbline",
        "/äö/日本",
        "/" + (PATH_BYTES_MAX - 1) * "x",
    ],
)
def test_well_formed_paths_are_returned(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "", "a", "a/b", "//", "/a/", "//a", "/a//b", "/.", "/..", "/./a", "/a/..", "/a/../b",
        "/.rhumbline", "/.rhumbline-own/a", "/a\nb", "/a\x00", "/\ud800", "/a\ufff0", "/\U0001f600",
        "/" + 1024 * "x", "/" + 512 * "ä",
    ],
)  # fmt: skip
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="bad metadata path"):
        check_path(path)
