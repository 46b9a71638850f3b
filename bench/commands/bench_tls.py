"""The option ``--tls`` of benchmarks: with TLS, or plain and with TLS in turn."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from ..harness.bookie_processes import BookieProcesses
from ..harness.lab_tls import LabTls, make_lab_tls
from .bench_options import Command
from .bench_output import Rows

OFF, ON, BOTH = "off", "on", "both"
_SUFFIX = "-tls"


def tls_option(command: Command) -> Command:
    """Add ``--tls``, passed on as ``tls``."""
    return click.option(
        "--tls", type=click.Choice((OFF, ON, BOTH)), is_flag=False, flag_value=ON, default=OFF,
        show_default=True,
        help="Encrypt all connections, with certificates made for the run. both: run each part "
        "plain and with TLS in turn, on clusters of their own, and compare. Without a value: on.",
    )(command)  # fmt: skip


@contextmanager
def running_clusters(
    root: Path, tls: str, *, count: int, settings: Mapping[str, str]
) -> Iterator[Sequence[BookieProcesses]]:
    """Run the clusters of a benchmark below ``root``: one, or a plain one and one with TLS."""
    kinds: list[LabTls | None] = []
    if tls != ON:
        kinds.append(None)
    if tls != OFF:
        kinds.append(make_lab_tls(root / "certificates"))
    with ExitStack() as closing:
        clusters = []
        for number, kind in enumerate(kinds):
            below = root / f"cluster-{number}"
            below.mkdir()
            processes = BookieProcesses(below, count=count, settings=settings, tls=kind)
            clusters.append(closing.enter_context(processes))
        yield clusters


async def measured(
    parts: Sequence[Callable[[BookieProcesses], Rows]], clusters: Sequence[BookieProcesses]
) -> Rows:
    """Run each part on each cluster; a row says which of them have TLS."""
    for part in parts:
        for cluster in clusters:
            async for row in part(cluster):
                if cluster.tls is None:
                    yield row
                else:
                    yield {**row, "peer": f"{row['peer']}{_SUFFIX}", "tls": True}


def comparison(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each work that was measured plain and with TLS: medians, and their ratio."""
    found: dict[tuple[str, str], dict[bool, list[Mapping[str, Any]]]] = {}
    for row in rows:
        key = row["w"], row["peer"].removesuffix(_SUFFIX)
        found.setdefault(key, {}).setdefault(bool(row.get("tls")), []).append(row)
    return [
        _compared(work, peer, both[False], both[True])
        for (work, peer), both in found.items()
        if len(both) == 2
    ]


def _compared(
    work: str, peer: str, plain: Sequence[Mapping[str, Any]], tls: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    rates = [statistics.median(_rate(row) for row in rows) for rows in (plain, tls)]
    compared: dict[str, Any] = {
        "work": work,
        "peer": peer,
        "size": plain[0]["size"],
        "records/s plain": round(rates[0]),
        "records/s TLS": round(rates[1]),
        "%": round(100 * rates[1] / max(rates[0], 1)),
    }
    medians = [[_p50_ms(row) for row in rows] for rows in (plain, tls)]
    if None not in (*medians[0], *medians[1]):
        p50s = [statistics.median(rows) for rows in medians]
        compared["p50 ms plain"] = round(p50s[0], 3)
        compared["p50 ms TLS"] = round(p50s[1], 3)
        compared["ms more"] = round(p50s[1] - p50s[0], 3)
    return compared


def _rate(row: Mapping[str, Any]) -> float:
    return float(row.get("del_rec_s", row["rec_s"]))


def _p50_ms(row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a number, or None if not measured
    return row.get("del", row).get("p50_ms")
