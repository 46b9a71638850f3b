"""Host names are taken from the header without port and brackets."""

import pytest

from rhumbline.cli.console.responses import HEADERS, host_name


@pytest.mark.parametrize(
    ("header", "name"),
    [("LOCALHOST:80", "localhost"), ("127.0.0.1", "127.0.0.1"), ("[::1]:8290", "::1"), ("", "")],
)
def test_the_name_of_a_host(header: str, name: str) -> None:
    assert host_name(header) == name


def test_pages_load_nothing_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy and "http" not in policy
