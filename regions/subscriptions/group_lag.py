"""The lag of a consumer group: by partition, by member, and in total."""

from typing import NamedTuple

from ...core.log.api.log_namespace import LogNamespace
from ...core.log.topics.group_state import GroupDescription
from .lag_bytes import measure_bytes
from .stream_lag import NO_LAG, UNKNOWN_LAG, Lag, count_records, lag_of


class PartitionLag(NamedTuple):
    """The lag of a group in one partition."""

    partition: int
    member: str | None
    """The id of the member that reads it; None if none does."""
    lag: Lag
    """The records that the group has not committed; all of them if it never read the partition."""
    bytes: int | None
    """The bytes of those records, see ``bytes_between``; None: not known."""


class LagTotal(NamedTuple):
    """The lag over several partitions. A part that is unknown makes the sum unknown."""

    records: int | None
    bytes: int | None
    behind_ms: int | None
    """The largest age of a record that is not committed."""

    @classmethod
    def of(cls, lags: list[PartitionLag], now_ms: int) -> "LagTotal":
        """Return the sum of records and bytes, and the largest age."""
        ages = [one.lag.behind_ms(now_ms) for one in lags]
        known = [age for age in ages if age is not None]
        return cls(
            _sum([one.lag.records for one in lags]),
            _sum([one.bytes for one in lags]),
            max(known, default=0) if len(known) == len(ages) else None,
        )


async def measure_group(namespace: LogNamespace, described: GroupDescription) -> list[PartitionLag]:
    """Return the lag in each partition. What does not respond in time is unknown."""
    found = []
    for one in described.partitions:
        count = await count_records(namespace, one.stream)
        lag = UNKNOWN_LAG
        if count is not None:
            if one.subscription is None:
                lag = Lag(count.records, None) if count.records else NO_LAG
                if count.records is None:
                    lag = UNKNOWN_LAG
            else:
                lag = await lag_of(namespace, one.stream, one.subscription.position, count)
        [size] = await measure_bytes(namespace, one.stream, [lag], count)
        found.append(PartitionLag(one.partition, one.member, lag, size))
    return found


def lag_by_member(lags: list[PartitionLag], now_ms: int) -> dict[str, LagTotal]:
    """Return the lag of each member that reads partitions, by its id."""
    members = sorted({one.member for one in lags if one.member is not None})
    return {
        member: LagTotal.of([one for one in lags if one.member == member], now_ms)
        for member in members
    }


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
