"""The tail cache holds the newest bytes within its limit."""

from rhumbline.core.bookie.log.tail_cache import TailCache


def test_cache_holds_the_newest_bytes_within_its_limit() -> None:
    cache = TailCache(10_000)
    for number in range(1000):
        cache.put(number * 1000, bytes([number % 256]) * 300)
        assert cache.held_bytes <= 10_000
        held = range(max(0, number - 32), number + 1)
        assert cache.held_bytes == 300 * len(held)
        for other in (held[0], held[-1]):
            assert cache.get(other * 1000, 300) == bytes([other % 256]) * 300
        assert cache.get(held[0] * 1000 - 1000, 300) is None
    assert cache.get(999_000, 300) == bytes([999 % 256]) * 300
    assert cache.get(999_010, 5) == bytes([999 % 256]) * 5
    assert cache.get(999_290, 20) is None
    assert cache.get(1000, 5) is None
    assert TailCache(0).get(0, 1) is None


def test_cache_keeps_what_fills_it_exactly_and_drops_the_oldest_for_one_more_byte() -> None:
    cache = TailCache(10)
    cache.put(100, b"01234")
    cache.put(200, b"56789")
    assert cache.get(100, 5) == b"01234"
    assert cache.get(104, 1) == b"4"
    assert cache.get(99, 1) is None
    cache.put(300, b"x")
    assert cache.get(100, 5) is None
    assert cache.get(200, 5) == b"56789"
    assert cache.get(300, 1) == b"x"
    assert cache.held_bytes == 6
    cache.put(400, bytes(11))
    assert cache.held_bytes == 0
    assert cache.get(400, 11) is None
    cache.put(500, b"y")
    assert cache.get(500, 1) == b"y"


def test_positions_of_dropped_bodies_are_removed_many_at_once() -> None:
    cache = TailCache(0)
    for number in range(1, 65):
        cache.put(number, b"x")
        assert len(cache._starts) == number
    cache.put(65, b"x")
    assert cache._starts == []
    cache = TailCache(1_000)
    for number in range(2_000):
        cache.put(number, b"x")
    assert len(cache._starts) == 2_000
    cache.put(2_000, b"x")
    assert cache._starts == list(range(1_001, 2_001))
