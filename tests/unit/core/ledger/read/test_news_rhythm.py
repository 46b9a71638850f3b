"""The rhythm of a ledger's news decides which silence is longer than usual."""

import pytest

from rhumbline.core.ledger.read.news_rhythm import NewsRhythm


def rhythm_of(*gaps_ms: float) -> NewsRhythm:
    rhythm, now_s = NewsRhythm(), 100.0
    rhythm.note(now_s)
    for gap_ms in gaps_ms:
        now_s += gap_ms / 1000
        rhythm.note(now_s)
    return rhythm


def test_rhythm_is_unknown_until_eight_gaps_were_seen() -> None:
    assert NewsRhythm().silence_ms is None
    assert rhythm_of(*[100] * 7).silence_ms is None
    assert rhythm_of(*[100] * 8).silence_ms is not None


@pytest.mark.parametrize(("gap_ms", "silence_ms"), [(1, 20), (100, 200)])
def test_silence_is_twice_the_gap_of_regular_news_and_at_least_20_ms(
    gap_ms: int, silence_ms: int
) -> None:
    assert rhythm_of(*[gap_ms] * 100).silence_ms == pytest.approx(silence_ms, rel=0.01)


def test_irregular_news_are_waited_for_longer() -> None:
    silence_ms = rhythm_of(*[50, 150] * 50).silence_ms
    assert silence_ms is not None
    assert 500 <= silence_ms <= 700, "twice the mean and four deviations of 50 ms"


def test_rhythm_follows_a_stream_that_becomes_slower_and_quicker() -> None:
    slower = rhythm_of(*[1] * 50, *[400] * 20).silence_ms
    assert slower is not None
    assert slower >= 800
    assert rhythm_of(*[400] * 50, *[1] * 120).silence_ms == 20


def test_delayed_news_say_nothing_about_the_rhythm() -> None:
    rhythm, now_s = rhythm_of(*[10] * 50), 101.0
    before = rhythm.silence_ms
    for _ in range(50):
        now_s += 0.2
        rhythm.note(now_s, is_delayed=True)
    assert rhythm.silence_ms == before
    rhythm.note(now_s + 0.01)
    assert rhythm.silence_ms == pytest.approx(before), "the next gap begins with the delayed news"
