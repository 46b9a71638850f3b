"""Decides whether the home region of a stream should be another one (rule PRX-54). Pure."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..config import ProxyConfig
from .region_rates import UNKNOWN


class HomeAdvice(NamedTuple):
    """The advice about the home region of a stream."""

    region: str
    """The region that should be the home; "" if the present one should stay."""
    reason: str


def advise(
    home: str,
    rates: Mapping[str, float],
    observed_ms: int,
    config: ProxyConfig,
    *,
    allowed: Collection[str],
    available: Collection[str],
) -> HomeAdvice:
    """Return the advice for a stream with these records per second by region of the client.

    ``allowed`` are the regions that may hold the stream; empty: all of them. ``available`` are the
    regions with a write proxy that accepts streams.

    A stream does not move back and forth: a region needs more than half of all records, and its
    owner must have counted for a whole window, which begins again with each owner.
    """
    total = sum(rates.values())
    region = max((one for one in rates if one != UNKNOWN), key=rates.__getitem__, default=home)
    share = rates.get(region, 0.0) / total if total else 0.0
    needed = config.home_share_percent_min
    if total < config.home_records_per_s_min:
        return _stay(
            f"it is written at {total:.1f} records per second; a suggestion needs "
            f"{config.home_records_per_s_min}"
        )
    if region == home:
        return _stay(f"clients of {region or 'no known region'} write most of it")
    if share * 100 < needed:
        return _stay(f"{region} writes {share:.0%} of it; a suggestion needs {needed}%")
    if allowed and region not in allowed:
        return _stay(f"{region} writes {share:.0%} of it, but the policy does not allow {region}")
    if region not in available:
        return _stay(f"{region} writes {share:.0%} of it, but has no write proxy for it")
    if observed_ms < config.home_window_ms:
        return _stay(
            f"{region} writes {share:.0%} of it, for {observed_ms // 1000} s; a suggestion needs "
            f"{config.home_window_ms // 1000} s"
        )
    return HomeAdvice(region, f"{region} writes {share:.0%} of {total:.1f} records per second")


def _stay(reason: str) -> HomeAdvice:
    return HomeAdvice("", reason)
