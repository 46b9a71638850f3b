"""Quotas: subjects, limits, the table and its stored form."""

import pytest

from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError, InvalidArgumentError
from rhumbline.core.protocol.metadata_record import encode_metadata_record
from rhumbline.security.quotas import (
    NO_QUOTAS,
    QUOTAS_MAX,
    Quota,
    QuotaTable,
    Subject,
    SubjectKind,
    check_quota,
    decode_quotas,
    encode_quotas,
    parse_subject,
)

ADA = parse_subject("principal:spiffe://acme/client/ada")
ANYBODY = parse_subject("principal:*")


def test_a_subject_is_read_as_it_is_written() -> None:
    assert Subject(SubjectKind.PRINCIPAL, "spiffe://acme/client/ada") == ADA
    for text in (str(ADA), "namespace:orders", "stream:orders/new", "stream:*"):
        assert str(parse_subject(text)) == text
    for text in ("ada", "user:ada", "principal:", "stream:orders", f"principal:{'x' * 601}"):
        with pytest.raises(InvalidArgumentError):
            parse_subject(text)


def test_the_own_quota_comes_before_that_of_anybody() -> None:
    table = NO_QUOTAS.with_quota(ANYBODY, Quota(calls=1)).with_quota(ADA, Quota(calls=2))
    assert table.find(SubjectKind.PRINCIPAL, ADA.name) == Quota(calls=2)
    assert table.find(SubjectKind.PRINCIPAL, "bob") == Quota(calls=1)
    assert table.find(SubjectKind.NAMESPACE, "bob") is None
    assert table.without(ADA).find(SubjectKind.PRINCIPAL, ADA.name) == Quota(calls=1)
    assert table and not NO_QUOTAS and table != NO_QUOTAS


def test_limits_must_apply_to_their_subject_and_be_in_range() -> None:
    for quota in (
        Quota(),
        Quota(streams=1),
        Quota(append_bytes_per_second=0),
        Quota(calls=-1),
        Quota(calls=2**54),
    ):
        with pytest.raises(InvalidArgumentError):
            check_quota(ADA, quota)
    check_quota(parse_subject("namespace:a"), Quota(streams=0))


def test_a_table_is_bounded_and_survives_its_stored_form() -> None:
    quotas = {Subject(SubjectKind.NAMESPACE, str(n)): Quota(streams=n) for n in range(QUOTAS_MAX)}
    table = QuotaTable(quotas)
    assert decode_quotas(encode_quotas(table)) == table
    with pytest.raises(InvalidArgumentError):
        table.with_quota(ADA, Quota(calls=1))


def test_a_stored_form_that_is_wrong_is_an_error() -> None:
    for rows in ({"ada": {"calls": 1}}, {"principal:a": 1}, {"principal:a": {"calls": True}}):
        with pytest.raises(CorruptionError):
            decode_quotas(encode_metadata_record(1, {"quotas": rows}))
    with pytest.raises(ForeignDataError):
        decode_quotas(encode_metadata_record(1, {"quotas": {"principal:a": {"cpu": 1}}}))
