"""Tests of the texts and the meaning of FoundationDB's errors."""

import pytest

from rhumbline.backends.fdb.errors import describe, is_too_large, may_be_committed, tls_hint


class BindingsError(Exception):
    """An error as the bindings raise it: the C library's description is bytes."""

    def __init__(self, code: int, description: bytes) -> None:
        super().__init__(code)
        self.code = code
        self.description = description

    def __str__(self) -> str:
        return f"{self.description!r} ({self.code})"


TIMED_OUT = BindingsError(1031, b"Operation aborted because the transaction timed out")


def test_an_error_has_no_python_literal_in_its_text() -> None:
    expected = "FoundationDB: Operation aborted because the transaction timed out (1031)"
    assert describe(TIMED_OUT) == expected
    assert describe(ValueError("no library")) == "FoundationDB: no library"


@pytest.mark.parametrize(
    ("code", "may_be"), [(1020, False), (1021, True), (1031, True), (2101, False)]
)
def test_a_commit_may_have_an_effect_unless_its_error_excludes_it(code: int, may_be: bool) -> None:
    assert may_be_committed(BindingsError(code, b"")) is may_be


def test_errors_of_limits_are_known() -> None:
    assert all(is_too_large(BindingsError(code, b"")) for code in (2101, 2102, 2103))
    assert not is_too_large(TIMED_OUT)


@pytest.mark.parametrize("addresses", ["10.0.0.1:4500:tls", "10.0.0.1:4500:tls,[::1]:4500:tls"])
def test_a_cluster_file_with_tls_needs_a_certificate(addresses: str) -> None:
    cluster = f"# a comment with 10.0.0.9:1\nname:id@{addresses}\n"
    assert "set the options tls_ca, tls_cert and tls_key" in tls_hint(
        cluster, has_certificate=False
    )
    assert tls_hint(cluster, has_certificate=True) == ""


def test_a_certificate_needs_a_cluster_file_with_tls() -> None:
    cluster = "name:id@10.0.0.1:4500,10.0.0.2:4500\n"
    assert "do not end with :tls" in tls_hint(cluster, has_certificate=True)
    assert tls_hint(cluster, has_certificate=False) == ""


@pytest.mark.parametrize("cluster", ["", "\n", "# nothing\n"])
def test_a_file_without_addresses_gives_no_hint(cluster: str) -> None:
    assert tls_hint(cluster, has_certificate=True) == ""
