"""Decisions about what may pass under quotas, against the sums that must hold."""

from random import Random

from rhumbline.security.quota_buckets import OTHER, USAGES_MAX, WAIT_MS_MAX, QuotaBuckets
from rhumbline.security.quotas import NO_QUOTAS, Quota, QuotaTable, parse_subject


def buckets_of(*, writers: int = 1, readers: int = 1, **quotas: Quota) -> QuotaBuckets:
    """Return buckets with quotas of subjects; ``kind__name`` stands for ``kind:name``."""
    table = QuotaTable(
        {
            parse_subject(key.replace("__", ":", 1).replace("__", "/")): quota
            for key, quota in quotas.items()
        }
    )
    found = QuotaBuckets()
    found.replace(table, writers=writers, readers=readers)
    return found


def test_without_quotas_everything_passes_and_is_counted() -> None:
    buckets = QuotaBuckets()
    for _ in range(10):
        assert buckets.append("ada", "a", "s", 2, 100, 0.0) is None
    assert buckets.read("ada", "a", "s", 50, 0.0) == 0.0
    counts = {"append_bytes": 1_000, "append_records": 20, "read_bytes": 50, "refused": 0}
    expected = {"quotas": 0, "principals": {"ada": counts}, "namespaces": {"a": counts}}
    assert buckets.statistics() == expected


def test_the_first_second_passes_at_once_and_then_the_rate() -> None:
    buckets = buckets_of(principal__ada=Quota(append_bytes_per_second=1_000))
    passed = 0
    for step in range(10_000):
        passed += buckets.append("ada", "a", "s", 1, 10, step / 1_000) is None
    assert 10_900 <= passed * 10 <= 11_000
    assert buckets.append("bob", "a", "s", 1, 10**9, 10.0) is None


def test_a_refusal_names_the_limit_and_the_time_and_takes_nothing() -> None:
    buckets = buckets_of(
        principal__ada=Quota(append_bytes_per_second=100),
        namespace__a=Quota(append_records_per_second=10),
    )
    assert buckets.append("ada", "a", "s", 10, 10, 0.0) is None
    for _ in range(100):
        excess = buckets.append("ada", "a", "s", 5, 10, 0.0)
        assert excess is not None
        assert (str(excess.subject), excess.limit) == ("namespace:a", "append_records_per_second")
        assert excess.wait_ms == 500
    assert buckets.append("ada", "b", "s", 5, 90, 0.0) is None
    late = buckets.append("ada", "b", "s", 1, 10**6, 0.0)
    assert late is not None and late.wait_ms == 1_000


def test_the_limit_of_a_cluster_is_divided_and_that_of_a_stream_is_not() -> None:
    buckets = buckets_of(
        writers=4,
        readers=2,
        principal__ada=Quota(append_bytes_per_second=400, read_bytes_per_second=100),
        stream__a__s=Quota(append_bytes_per_second=100),
    )
    assert buckets.append("ada", "a", "t", 1, 100, 0.0) is None
    assert buckets.append("ada", "a", "t", 1, 1, 0.0) is not None
    assert buckets.append("bob", "a", "s", 1, 100, 0.0) is None
    assert buckets.append("bob", "a", "s", 1, 1, 0.0) is not None
    assert buckets.read("ada", "a", "t", 50, 0.0) > 0.0
    assert buckets.read("ada", "a", "t", 50, 0.0) == 1.02
    assert buckets.read("ada", "a", "t", 10**9, 0.0) == WAIT_MS_MAX / 1000


def test_a_quota_of_any_name_is_one_for_each() -> None:
    table = QuotaTable({parse_subject("principal:*"): Quota(append_records_per_second=1)})
    buckets = QuotaBuckets()
    buckets.replace(table, writers=1, readers=1)
    for name in ("ada", "bob"):
        assert buckets.append(name, "a", "s", 1, 1, 0.0) is None
        assert buckets.append(name, "a", "s", 1, 1, 0.0) is not None
    buckets.replace(NO_QUOTAS, writers=1, readers=1)
    assert buckets.append("ada", "a", "s", 1, 1, 0.0) is None


def test_usage_is_counted_for_a_bounded_number_of_tenants() -> None:
    buckets = QuotaBuckets()
    for number in range(USAGES_MAX + 100):
        buckets.append(f"p{number}", "a", "s", 1, 1, 0.0)
    found = buckets.statistics()
    assert len(found["principals"]) == USAGES_MAX + 1
    assert found["principals"][OTHER]["append_records"] == 100
    assert found["namespaces"]["a"]["append_records"] == USAGES_MAX + 100


def test_random_loads_never_exceed_any_limit() -> None:
    random = Random(7)
    limits = {"principal:p0": 500, "namespace:n0": 700, "stream:n0/s0": 300, "principal:*": 900}
    table = QuotaTable(
        {parse_subject(text): Quota(append_bytes_per_second=rate) for text, rate in limits.items()}
    )
    buckets = QuotaBuckets()
    buckets.replace(table, writers=1, readers=1)
    passed = dict.fromkeys(("principal:p0", "principal:p1", "namespace:n0", "stream:n0/s0"), 0)
    now = 0.0
    for _ in range(20_000):
        now += random.random() / 1_000
        who, where, what = (f"{kind}{random.randrange(2)}" for kind in "pns")
        size = random.randrange(1, 50)
        if buckets.append(who, where, what, 1, size, now) is None:
            for key in (f"principal:{who}", f"namespace:{where}", f"stream:{where}/{what}"):
                if key in passed:
                    passed[key] += size
    for key, total in passed.items():
        rate = limits.get(key, 900)
        assert total <= rate * (now + 1), key
    assert passed["stream:n0/s0"] >= 300 * now * 0.9
