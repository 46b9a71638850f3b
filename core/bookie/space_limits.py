"""The limits of a bookie's disk space: the configured ones, lowered to parts of a small disk.

A limit that is lowered is logged and shown: nobody should rely on a setting that does not apply.
"""

from typing import NamedTuple

from .config import KIB, BookieConfig

_TOTAL_PER_LOG = 12
_TOTAL_PER_RESERVE = 8
_TOTAL_PER_PLAIN_LIMIT = 20
_TOTAL_PER_RECOVERY_LIMIT = 80
_LOG_BYTES_MIN = 4 * KIB


class SpaceLimits(NamedTuple):
    """Sizes in bytes that apply on one disk, each named as its setting (rule BKE-20)."""

    log_file_bytes: int
    maintenance_reserve_bytes: int
    read_only_below_bytes: int
    reserve_below_bytes: int


def configured_limits(config: BookieConfig) -> SpaceLimits:
    """Return the limits as they are configured."""
    reserve = config.maintenance_reserve_bytes
    return SpaceLimits(
        config.log_file_bytes,
        config.log_file_bytes * 5 // 4 if reserve is None else reserve,
        config.read_only_below_bytes,
        config.reserve_below_bytes,
    )


def limits_on_disk(config: BookieConfig, total_bytes: int) -> SpaceLimits:
    """Return the limits that apply on a disk of ``total_bytes``.

    A log file takes at most a 12th of the disk and the maintenance reserve at most an eighth, so
    that the reserve is enough to rewrite any log file. The limit for plain adds is at most a 20th,
    the one for recovery adds at most an 80th.
    """
    wanted = configured_limits(config)
    return SpaceLimits(
        min(wanted.log_file_bytes, max(total_bytes // _TOTAL_PER_LOG, _LOG_BYTES_MIN)),
        min(wanted.maintenance_reserve_bytes, total_bytes // _TOTAL_PER_RESERVE),
        min(wanted.read_only_below_bytes, total_bytes // _TOTAL_PER_PLAIN_LIMIT),
        min(wanted.reserve_below_bytes, total_bytes // _TOTAL_PER_RECOVERY_LIMIT),
    )


def lowered_limits(config: BookieConfig, limits: SpaceLimits) -> dict[str, str]:
    """Return the settings that ``limits`` lowers, each with "configured -> applied", in bytes."""
    wanted = configured_limits(config)
    return {
        name: f"{configured} -> {applied}"
        for name, configured, applied in zip(SpaceLimits._fields, wanted, limits, strict=True)
        if applied < configured
    }
