"""Every query of the dashboards and of the alert rules returns data of a real cluster.

A real Prometheus scrapes bookies, a proxy, a repair process and an archiver, while records are
written, rolled, archived and read.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

from rhumbline.cli.reference.dashboards.grafana import DASHBOARDS
from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.processes.prometheus_server import PrometheusServer
from rhumbline.tests.support.processes.watched_cluster import WatchedCluster
from rhumbline.tests.support.servers import installs

pytestmark = [pytest.mark.needs_server("prometheus"), pytest.mark.long, pytest.mark.timeout(600)]

LONG_S = 300
RECORDS = 400
VARIABLES = {"$__rate_interval": "30s", "$instance": ".*"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    try:
        binary = installs.prometheus_binary()
    except installs.NotInstalledError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("watched") / "cluster"
    root.mkdir()
    with WatchedCluster(
        root, binary, regions=("bonn", "oslo", "rome"), bookies_per_region=1, proxies=1, repairers=1
    ) as cluster:
        asyncio.run(work(cluster.proxy_uri))
        until(lambda: not cluster.prometheus.unhealthy_targets())
        yield cluster.prometheus


async def work(uri: str) -> None:
    """Write and read a stream whose segments are rolled every few records."""
    policy = StreamPolicy(Quorum(3, 3, 2, 2), roll_bytes=20_000)
    async with asyncio.timeout(LONG_S), connect_proxies(uri) as client:
        await client.namespace().create_stream("orders", policy)
        async with client.writer("orders") as writer, client.reader("orders", EARLIEST) as reader:
            left = RECORDS
            for number in range(RECORDS):
                await writer.append(b"%d" % number * 100)
                if number % 20 == 0:
                    await asyncio.sleep(0.1)
            while left > 0:
                batch = await reader.next_batch()
                assert batch is not None
                left -= len(batch)


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < ends, "time is up"
        time.sleep(0.3)


def eventually_empty(prometheus: PrometheusServer, expressions: list[str]) -> list[str]:
    """Return the expressions that have no data, after a while for the first audit and scrapes."""
    ends = time.monotonic() + LONG_S
    left = expressions
    while left and time.monotonic() < ends:
        left = [one for one in left if not prometheus.query(one)]
        if left:
            time.sleep(0.5)
    return left


def replaced(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def test_every_query_of_the_dashboards_returns_data(prometheus: PrometheusServer) -> None:
    queries = [q for d in DASHBOARDS for row in d.rows for p in row.panels for q in p.queries]
    expected = [replaced(query.expression) for query in queries if not query.may_be_empty]
    assert len(expected) > 50
    assert eventually_empty(prometheus, expected) == []
    for query in queries:
        prometheus.query(replaced(query.expression))  # raises if it is malformed
    assert sum(query.may_be_empty for query in queries) <= 2


def test_every_metric_of_the_alert_rules_has_data(prometheus: PrometheusServer) -> None:
    """Except those of certificates, which this cluster does not have."""
    named = {
        name
        for rule in prometheus.rules()
        for name in re.findall(r"rhumbline_\w+", rule["query"])
        if not name.endswith("_tls_certificate_remaining_seconds")
    }
    assert len(named) > 20
    assert eventually_empty(prometheus, sorted(named)) == []


def test_rules_are_evaluated_without_errors_and_a_healthy_cluster_is_quiet(
    prometheus: PrometheusServer,
) -> None:
    until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()))
    assert {rule["lastError"] for rule in prometheus.rules() if "lastError" in rule} <= {""}
    assert [alert for alert in prometheus.alerts() if alert.is_firing] == []


def test_latencies_are_plausible(prometheus: PrometheusServer) -> None:
    """Buckets, counts and sums of a histogram agree, as Prometheus sees them."""
    for name in (
        "rhumbline_client_streams_acks_seconds",
        "rhumbline_bookie_operation_seconds",
        "rhumbline_bookie_durable_writes_seconds",
        "rhumbline_client_metadata_call_seconds",
    ):
        assert prometheus.query(f'sum({name}_bucket{{le="+Inf"}}) == sum({name}_count)')
        assert prometheus.query(f"sum({name}_sum) / sum({name}_count) < 60")
        assert prometheus.query(f"histogram_quantile(0.99, sum by (le) ({name}_bucket)) < 60")
