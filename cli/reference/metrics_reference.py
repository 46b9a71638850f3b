"""Generates the page of all metrics from their catalogue."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric as MetricFamily

from ...core.runtime.histogram import BOUNDS_S
from ...core.runtime.metrics import CATALOGUE, Metric
from ...server.prometheus_exposition import registry_of

METRICS_FILE = "metrics.md"

_HEAD = f"""\
# Metrics

Generated from the program; do not edit. Bookies, proxies, repair processes and archivers serve
these metrics at `/metrics` on their status port; [Observe](../how-to/observe.md) shows how to
collect them, and the [runbook](../how-to/runbook.md) which of them to alert on. Times are in
seconds and sizes in bytes. A name that ends in `_total` is a counter, which starts at 0 with the
process.

A histogram `NAME` consists of `NAME_bucket` with the label `le`, `NAME_count` and `NAME_sum`. All
histograms have the same bounds: {BOUNDS_S[0] * 1e6:.0f} microseconds, doubled up to
{BOUNDS_S[-1]:.0f} seconds. The sum is within 2 % of the exact one.

A process that uses the metadata store of a region, too, exports the metrics of its repair, and of
its client's ledgers, reads and metadata, once more for that store: with the additional label
`store`, which is the region. The metrics of the global store have no such label.

By OTLP a metric has the name in the last column, without unit and labels.
"""
_SECTIONS = {
    "bookie": "Bookies",
    "proxy": "Proxies",
    "repair": "Repair processes",
    "archive": "Archivers",
    "client": "Clients\n\nEvery proxy and repair process contains a client, and a bookie contains"
    " one of the metadata\nstore. An application reports its own by OTLP, and so do"
    " commands with `--via`, whose clients only have those of the discovery of proxies.",
}


def metrics_page(catalogue: Sequence[Metric] = CATALOGUE) -> str:
    """Return the page: a table of metrics for each service, and those of every process."""
    return "\n".join([_HEAD, *_tables(catalogue), *_process_table()]) + "\n"


def _tables(catalogue: Sequence[Metric]) -> Iterator[str]:
    for service, title in _SECTIONS.items():
        yield f"## {title}\n"
        yield "| metric | type | unit | labels | meaning | by OTLP |\n|---|---|---|---|---|---|"
        for metric in catalogue:
            if metric.path.partition(".")[0] == service:
                labels = ", ".join(f"`{label}`" for label in metric.labels)
                yield (
                    f"| `{metric.prometheus_name}` | {metric.type} | {_unit(metric)} | {labels} "
                    f"| {metric.help} | `{metric.name}` |"
                )
        yield ""


def _unit(metric: Metric) -> str:
    return {"By": "bytes", "s": "seconds", "1": ""}.get(metric.unit, metric.unit.strip("{}"))


def _process_table() -> Iterator[str]:
    yield "## Every process\n"
    yield "The `process_` metrics exist on Linux.\n"
    yield "| metric | type | labels | meaning |\n|---|---|---|---|"
    for family in registry_of("", dict).collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        help_text = family.documentation.rstrip(".")
        yield f"| `{name}` | {family.type} | {_labels(family)} | {help_text}. |"


def _labels(family: MetricFamily) -> str:
    return ", ".join(f"`{label}`" for label in family.samples[0].labels)
