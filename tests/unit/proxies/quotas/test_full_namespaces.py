"""A namespace is full when it stores what its quota allows, whatever others store."""

from rhumbline.proxies.quotas.full_namespaces import FullNamespaces
from rhumbline.security.quotas import NO_QUOTAS, Quota, parse_subject


def test_only_namespaces_that_store_what_their_quota_allows_are_full() -> None:
    table = NO_QUOTAS
    for subject, limit in (("namespace:*", 100), ("namespace:large", 1_000)):
        table = table.with_quota(parse_subject(subject), Quota(stored_bytes=limit))
    full = FullNamespaces()
    full.replace(table, {"large": 999, "a": 99, "b": 100, "c": 101})
    assert [full.refusal(name) is None for name in ("large", "a", "b", "c", "empty")] == [
        True, True, False, False, True,
    ]  # fmt: skip
    assert len(full) == 2
    full.replace(table.without(parse_subject("namespace:*")), {"c": 101})
    assert full.refusal("c") is None


def test_other_limits_make_no_namespace_full() -> None:
    full = FullNamespaces()
    full.replace(NO_QUOTAS.with_quota(parse_subject("namespace:a"), Quota(streams=0)), {"a": 9})
    assert full.refusal("a") is None
