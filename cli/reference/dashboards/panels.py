"""The parts of a dashboard, and the forms of query that its panels use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Query(NamedTuple):
    """A query of a panel, and the legend of its series."""

    expression: str
    legend: str
    may_be_empty: bool = False
    """True if a healthy cluster may have no such series."""


class Panel(NamedTuple):
    """A panel. ``unit`` is one of Grafana's, such as ``s``, ``bytes``, ``Bps`` or ``ops``."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    help: str
    limit: float | None = None
    """A dashed line: the threshold of the alert on this value."""
    colours: Mapping[str, str] = MappingProxyType({})
    """Colours of series by legend; the others get one of Grafana's palette."""


class Row(NamedTuple):
    """A row of panels under a title."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(NamedTuple):
    """A dashboard. With ``has_instances`` the user selects bookies in the variable $instance."""

    uid: str
    title: str
    rows: tuple[Row, ...]
    has_instances: bool = False


def rate(metric: str, labels: str = "") -> str:
    """Return the rate of a counter."""
    selector = f"{metric}{{{labels}}}" if labels else metric
    return f"rate({selector}[$__rate_interval])"


def quantile(share: float, metric: str, by: str = "", labels: str = "") -> str:
    """Return a quantile of a histogram, by some labels."""
    group = f"le, {by}" if by else "le"
    growth = rate(f"{metric}_bucket", labels)
    return f"histogram_quantile({share}, sum by ({group}) ({growth}))"


def quantiles(metric: str, by: str = "", labels: str = "") -> tuple[Query, ...]:
    """Return queries for the median and the 99th percentile."""
    legend = f"{{{{{by}}}}} " if by else ""
    return tuple(
        Query(quantile(share, metric, by, labels), f"{legend}{name}")
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    )


def total(expression: str, by: str = "") -> str:
    """Return the sum of an expression by a label, or over all series."""
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def panel(
    title: str,
    unit: str,
    text: str,
    *queries: Query,
    limit: float | None = None,
    colours: Mapping[str, str] | None = None,
) -> Panel:
    """Return a panel."""
    return Panel(title, unit, queries, text, limit, MappingProxyType(dict(colours or {})))
