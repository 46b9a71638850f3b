"""The tail cache holds the newest bytes within its limit."""

from rhumbline.core.bookie.log.tail_cache import TailCache


def test_cache_holds_the_newest_bytes_within_its_limit() -> None:
    cache = TailCache(10_000)
    for number in range(1000):
        cache.put(number * 1000, bytes([number % 256]) * 300)
        assert cache.held_bytes <= 10_000
    assert cache.get(999_000, 300) == bytes([999 % 256]) * 300
    assert cache.get(999_010, 5) == bytes([999 % 256]) * 5
    assert cache.get(999_290, 20) is None
    assert cache.get(1000, 5) is None
    assert TailCache(0).get(0, 1) is None
