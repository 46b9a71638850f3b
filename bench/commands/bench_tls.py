"""The option ``--tls`` of benchmarks: with TLS, or two kinds of clusters in turn and compared."""

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..harness.bookie_processes import BookieProcesses
from ..harness.lab_tls import LabTls, make_lab_tls
from ..harness.settling import settle
from .bench_options import Command
from .bench_output import Rows

OFF, ON, BOTH, CHECKS = "off", "on", "both", "checks"
COMPARED = (BOTH, CHECKS)
"""The values that measure two clusters, and compare them."""

_PLAIN, _TLS, _CHECKED = "plain", "TLS", "checked"
_CLUSTERS = {OFF: (_PLAIN,), ON: (_TLS,), BOTH: (_PLAIN, _TLS), CHECKS: (_TLS, _CHECKED)}
_SUFFIXES = {_PLAIN: "", _TLS: "-tls", _CHECKED: "-checked"}


def tls_option(command: Command) -> Command:
    """Add ``--tls``, passed on as ``tls``."""
    return click.option(
        "--tls", type=click.Choice(tuple(_CLUSTERS)), is_flag=False, flag_value=ON, default=OFF,
        show_default=True,
        help="Encrypt all connections, with certificates made for the run. both: run each part "
        "plain and with TLS in turn, on clusters of their own, and compare. checks: compare TLS "
        "alone with TLS and permission checks at bookies and proxies. Without a value: on.",
    )(command)  # fmt: skip


@contextmanager
def running_clusters(
    root: Path, tls: str, *, count: int, settings: Mapping[str, str]
) -> Iterator[Sequence[BookieProcesses]]:
    """Run the clusters of a benchmark below ``root``: one, or the two that ``tls`` compares."""
    with ExitStack() as closing:
        clusters = []
        certificates = None if tls == OFF else make_lab_tls(root / "certificates")
        for kind in _CLUSTERS[tls]:
            below = root / f"cluster-{kind}"
            below.mkdir()
            processes = BookieProcesses(
                below, count=count, settings=settings, tls=_settings_of(kind, certificates)
            )
            clusters.append(closing.enter_context(processes))
        yield clusters


def _settings_of(kind: str, certificates: LabTls | None) -> LabTls | None:
    if certificates is None or kind == _PLAIN:
        return None
    return replace(certificates, has_checks=kind == _CHECKED)


def _kind_of(cluster: BookieProcesses) -> str:
    if cluster.tls is None:
        return _PLAIN
    return _CHECKED if cluster.tls.has_checks else _TLS


async def measured(
    parts: Sequence[Callable[[BookieProcesses], Rows]], clusters: Sequence[BookieProcesses]
) -> Rows:
    """Run each part on all clusters, in random order. Each row names its cluster's protection.

    A part begins when the bookies are idle: the compaction and the writes to disk that an earlier
    part caused on one cluster would slow down the other one.
    """
    for part in parts:
        for cluster in random.sample(clusters, len(clusters)):
            if len(clusters) > 1:
                await settle(clusters)
            kind = _kind_of(cluster)
            async for row in part(cluster):
                if kind == _PLAIN:
                    yield row
                else:
                    yield {**row, "peer": f"{row['peer']}{_SUFFIXES[kind]}", "protection": kind}


def comparison(tls: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each work that both kinds of clusters of ``tls`` did: medians and ratio."""
    found: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        kind = row.get("protection", _PLAIN)
        key = row["w"], row["peer"].removesuffix(_SUFFIXES[kind])
        found.setdefault(key, {}).setdefault(kind, []).append(row)
    before, after = _CLUSTERS[tls]
    return [
        _compared(work, peer, {kind: kinds[kind] for kind in (before, after)})
        for (work, peer), kinds in found.items()
        if len(kinds) == 2
    ]


def _compared(
    work: str, peer: str, kinds: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    rates = {kind: statistics.median(_rate(row) for row in rows) for kind, rows in kinds.items()}
    before, after = rates.values()
    compared: dict[str, Any] = {"work": work, "peer": peer}
    compared["size"] = next(iter(kinds.values()))[0]["size"]
    compared |= {f"records/s {kind}": round(rate) for kind, rate in rates.items()}
    compared["%"] = round(100 * after / max(before, 1))
    medians = {kind: [_p50_ms(row) for row in rows] for kind, rows in kinds.items()}
    if all(None not in found for found in medians.values()):
        p50s = {kind: statistics.median(found) for kind, found in medians.items()}
        compared |= {f"p50 ms {kind}": round(p50, 3) for kind, p50 in p50s.items()}
        first, second = p50s.values()
        compared["ms more"] = round(second - first, 3)
    return compared


def _rate(row: Mapping[str, Any]) -> float:
    return float(row.get("del_rec_s", row["rec_s"]))


def _p50_ms(row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a number, or None if not measured
    return row.get("del", row).get("p50_ms")
