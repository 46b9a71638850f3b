"""The operations of a bookie are counted by kind and result."""

import asyncio

import pytest

from rhumbline.core.bookie.server.operation_meter import (
    ADD,
    KINDS,
    READ,
    RESULTS,
    OperationMeter,
    result_of,
)
from rhumbline.core.protocol.errors import (
    CorruptionError,
    DiskFailedError,
    InvalidArgumentError,
    LedgerFencedError,
    NoSuchEntryError,
    ReadOnlyError,
    RhumblineError,
)
from rhumbline.core.runtime.metrics import samples
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (None, "ok"),
        (NoSuchEntryError("none"), "not_found"),
        (LedgerFencedError("fenced"), "fenced"),
        (ReadOnlyError("read-only"), "read_only"),
        (InvalidArgumentError("bad"), "invalid"),
        (DiskFailedError("broken"), "failed"),
        (CorruptionError("damaged"), "failed"),
    ],
)
def test_errors_are_counted_by_what_they_say(error: RhumblineError | None, result: str) -> None:
    assert result_of(error) == result
    assert result in RESULTS


@pytest.mark.run_by(runner=run_jumping)
async def test_operations_have_counts_and_durations() -> None:
    meter = OperationMeter()
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(0.1)
    meter.done(ADD, began, count=5)
    meter.done(READ, began, NoSuchEntryError("none"))
    found = {metric.prometheus_name: values for metric, values in
             samples("bookie", meter.statistics()).items()}  # fmt: skip
    counts = {sample.labels: sample.value for sample in found["rhumbline_bookie_operations_total"]}
    assert len(counts) == len(KINDS) * len(RESULTS), "every series begins at 0"
    assert {labels: count for labels, count in counts.items() if count} == {
        (("kind", "add"), ("result", "ok")): 5,
        (("kind", "read"), ("result", "not_found")): 1,
    }
    durations = {
        (sample.labels, sample.part): sample.value
        for sample in found["rhumbline_bookie_operation_seconds"]
    }
    below, above = (("kind", "add"), ("le", "0.065536")), (("kind", "add"), ("le", "0.131072"))
    assert (durations[below, "bucket"], durations[above, "bucket"]) == (0, 5)
