"""Limits of disk space are lowered on a small disk, and each lowered one is named."""

import pytest

from rhumbline.core.bookie.config import GIB, MIB, BookieConfig
from rhumbline.core.bookie.space_limits import (
    SpaceLimits,
    configured_limits,
    limits_on_disk,
    lowered_limits,
)


def test_configured_limits_apply_on_a_large_disk() -> None:
    config = BookieConfig()
    limits = limits_on_disk(config, 100 * GIB)
    assert limits == configured_limits(config)
    assert limits == SpaceLimits(256 * MIB, 320 * MIB, GIB, 256 * MIB)
    assert lowered_limits(config, limits) == {}


@pytest.mark.parametrize("total", [1, 100_000, 64 * MIB, 1400 * MIB, 3 * GIB, 21 * GIB])
def test_reserve_is_enough_to_rewrite_a_log_file_on_any_disk(total: int) -> None:
    limits = limits_on_disk(BookieConfig(), total)
    if total >= 100_000:
        assert limits.maintenance_reserve_bytes >= limits.log_file_bytes * 5 // 4
    assert limits.log_file_bytes >= 4096
    assert limits.maintenance_reserve_bytes <= total // 8
    assert limits.read_only_below_bytes <= total // 20
    assert limits.reserve_below_bytes <= total // 80


def test_lowered_settings_are_named_with_both_values() -> None:
    config = BookieConfig(log_file_bytes=4096, maintenance_reserve_bytes=0)
    lowered = lowered_limits(config, limits_on_disk(config, 10 * GIB))
    assert lowered == {
        "read_only_below_bytes": f"{GIB} -> {GIB // 2}",
        "reserve_below_bytes": f"{256 * MIB} -> {128 * MIB}",
    }


def test_a_reserve_may_be_configured_or_left_out() -> None:
    for reserve in (0, 5 * MIB):
        config = BookieConfig(maintenance_reserve_bytes=reserve)
        assert configured_limits(config).maintenance_reserve_bytes == reserve
