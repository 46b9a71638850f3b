"""The comparison of plain and TLS rows of a benchmark."""

from typing import Any

from rhumbline.bench.commands.bench_tls import comparison


def _row(records_s: int, p50_ms: float | None, *, tls: bool, **more: object) -> dict[str, Any]:
    row: dict[str, Any] = {"w": "W1", "peer": "own-tls" if tls else "own", "size": 128}
    if tls:
        row["tls"] = True
    if p50_ms is not None:
        row["p50_ms"] = p50_ms
    return {**row, "rec_s": records_s, **more}


def test_medians_of_plain_and_tls_are_compared() -> None:
    plain = [_row(rate, 1.0, tls=False) for rate in (100, 1_000, 900)]
    tls = [_row(rate, 1.25, tls=True) for rate in (700, 720, 5)]
    (found,) = comparison([*plain, *tls])
    assert found == {
        "work": "W1",
        "peer": "own",
        "size": 128,
        "records/s plain": 900,
        "records/s TLS": 700,
        "%": 78,
        "p50 ms plain": 1.0,
        "p50 ms TLS": 1.25,
        "ms more": 0.25,
    }


def test_rows_without_latencies_and_deliveries_are_compared() -> None:
    (found,) = comparison([_row(10, None, tls=False), _row(5, None, tls=True)])
    assert found["%"] == 50
    assert "ms more" not in found
    plain = _row(9, 1.0, tls=False, del_rec_s=20, **{"del": {"p50_ms": 2.0}})
    tls = _row(9, 1.0, tls=True, del_rec_s=10, **{"del": {"p50_ms": 3.0}})
    (found,) = comparison([plain, tls])
    assert (found["%"], found["ms more"]) == (50, 1.0)


def test_a_work_that_was_measured_once_is_not_compared() -> None:
    assert comparison([_row(10, 1.0, tls=True)]) == []
