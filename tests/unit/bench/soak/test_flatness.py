"""A leak is found within the noise, and noise alone is not taken for one."""

from random import Random

import pytest

from rhumbline.bench.soak.flatness import (
    DESCRIPTORS,
    DISK,
    MEMORY,
    MIB,
    P99,
    SAMPLES_MIN,
    Flatness,
    judge,
)

HOUR_S = 3600.0


def sampled(kind: str, values: list[float]) -> Flatness:
    """Judge a value for each minute of an hour."""
    return judge(kind, "b1", [(60.0 * n, value) for n, value in enumerate(values)], HOUR_S)


def noisy(level: float, per_hour: float, noise: float, warm_up: float = 0.0) -> list[float]:
    random = Random(1)
    return [
        level + per_hour * n / 60 + random.uniform(-noise, noise) - warm_up * max(0, 15 - n) / 15
        for n in range(60)
    ]


def test_noise_and_a_warm_up_are_flat() -> None:
    found = sampled(MEMORY, noisy(200 * MIB, 0, 30 * MIB, warm_up=150 * MIB))
    assert found.is_judged and found.is_flat, found
    assert found.samples == 40
    assert abs(found.median - 200 * MIB) < 10 * MIB


@pytest.mark.parametrize(
    ("kind", "level", "per_hour"),
    [(MEMORY, 200 * MIB, 60 * MIB), (DESCRIPTORS, 40, 20), (DISK, 300 * MIB, 150 * MIB)],
)
def test_a_leak_is_found_although_samples_scatter(kind: str, level: float, per_hour: float) -> None:
    found = sampled(kind, noisy(level, per_hour, per_hour / 4))
    assert not found.is_flat, found
    assert found.growth == pytest.approx(per_hour * 2 / 3, rel=0.3)
    assert sampled(kind, noisy(level, 0, per_hour / 4)).is_flat


def test_single_peaks_do_not_count() -> None:
    values = noisy(0.05, 0, 0.01)
    values[45] = values[58] = 30.0
    assert sampled(P99, values).is_flat


def test_a_series_that_falls_is_flat() -> None:
    assert sampled(MEMORY, noisy(400 * MIB, -300 * MIB, 0)).is_flat


def test_too_few_samples_are_not_judged() -> None:
    points = [(3000.0 + n, 1e9 * n) for n in range(SAMPLES_MIN - 1)]
    found = judge(MEMORY, "b1", [(0.0, 1.0), *points], HOUR_S)
    assert (found.is_judged, found.is_flat, found.samples) == (False, True, SAMPLES_MIN - 1)
