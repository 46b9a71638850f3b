"""``apply``, ``diff`` and ``export`` against an embedded store and etcd."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from rhumbline.cli.main import main
from rhumbline.tests.support.servers import metadata_servers

WANTED = """
regions = ["eu", "us"]

[namespaces.orders.policy]
quorum = "3/3/2/2"
retention_ms = "7d"

[namespaces.orders.streams.payments.policy]
codec = "zstd"

[namespaces.orders.streams.refunds]
policy = {}
subscriptions = { billing = {}, audit = { from = "latest" } }

[quotas."principal:ada"]
append_bytes_per_second = "1MiB"

[[grants]]
principal = "app"
actions = ["append", "read"]
resource = "stream:orders/*"
"""

Run = Callable[..., Result]


def sqlite_uri(folder: Path) -> str:
    return f"sqlite://{folder}/metadata.db"


def etcd_uri(_: Path) -> str:
    return f"etcd://{metadata_servers.etcd().address}/{uuid4().hex}"


@pytest.fixture(
    params=[sqlite_uri, pytest.param(etcd_uri, marks=pytest.mark.needs_server("etcd"))],
    ids=["sqlite", "etcd"],
)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    uri = request.param(tmp_path)
    (tmp_path / "wanted.toml").write_text(WANTED)

    def call(*words: str, text: str = "") -> Result:
        files = [word.replace("@", f"{tmp_path}/") for word in words]
        return CliRunner().invoke(main, [*files, "-u", uri], input=text)

    assert call("cluster", "init").exit_code == 0
    yield call


def test_a_file_is_applied_once_and_exported_without_a_difference(run: Run) -> None:
    assert run("diff", "-f", "@wanted.toml").exit_code == 1
    assert run("apply", "-f", "@wanted.toml", "--dry-run").exit_code == 0
    assert run("diff", "-f", "@wanted.toml").exit_code == 1, "a dry run changes nothing"
    applied = json.loads(run("apply", "-f", "@wanted.toml", "-o", "json").stdout)
    assert [(row["kind"], row["name"], row["result"]) for row in applied["changes"]] == [
        ("regions", "cluster", "done"),
        ("namespace", "orders", "done"),
        ("stream", "orders/payments", "done"),
        ("stream", "orders/refunds", "done"),
        ("subscription", "orders/refunds/audit", "done"),
        ("subscription", "orders/refunds/billing", "done"),
        ("quota", "principal:ada", "done"),
        ("grant", "allow app on stream:orders/*", "done"),
    ]
    assert json.loads(run("apply", "-f", "@wanted.toml", "-o", "json").stdout)["changes"] == []
    assert run("diff", "-f", "@wanted.toml").exit_code == 0
    exported = run("export").stdout
    assert run("diff", "-f", "-", "--prune", text=exported).exit_code == 0
    described = run("namespace", "describe", "orders", "-o", "json")
    assert json.loads(described.stdout)["policy"]["retention_ms"] == 7 * 86_400_000


def test_deletions_need_prune_and_a_confirmation(run: Run) -> None:
    assert run("apply", "-f", "@wanted.toml").exit_code == 0
    less = WANTED.replace('[namespaces.orders.streams.payments.policy]\ncodec = "zstd"\n', "")
    less = less.partition("[[grants]]")[0] + "grants = []\n"
    less = "grants = []\n" + less.replace("grants = []\n", "")
    assert run("apply", "-f", "-", text=less).exit_code == 0
    assert run("diff", "-f", "@wanted.toml").exit_code == 0, "nothing was deleted"
    refused = run("apply", "-f", "-", "--prune", text=less)
    assert refused.exit_code == 2
    assert "permanently deletes 1 grant, 1 stream" in refused.stderr
    assert run("diff", "-f", "@wanted.toml").exit_code == 0
    assert run("apply", "-f", "-", "--prune", "--yes", text=less).exit_code == 0
    missing = json.loads(run("diff", "-f", "@wanted.toml", "-o", "json").stdout)
    assert [(row["action"], row["name"]) for row in missing] == [
        ("create", "orders/payments"),
        ("create", "allow app on stream:orders/*"),
    ]


def test_a_failure_half_way_names_what_was_applied(run: Run) -> None:
    assert run("stream", "create", "x", "-n", "orders").exit_code == 4
    text = "[namespaces.orders.streams.s]\n[namespaces.orders.streams.s.subscriptions]\n"
    text += 'x = { from = "9:0:0@00112233" }\n[quotas."principal:a"]\ncalls = 1\n'
    failed = run("apply", "-f", "-", "-o", "json", text=text)
    assert failed.exit_code == 2, failed.output
    shown = json.loads(failed.stdout)
    assert [row["result"] for row in shown["changes"]] == ["done", "done", "failed", "not tried"]
    assert shown["applied"] == 2
    message, error = map(json.loads, failed.stderr.splitlines())
    assert message["text"].startswith("2 of 4 changes were applied; failed: create subscription")
    assert "(standard input:1)" in message["text"]
    assert error["event"] == "error"
    again = run("apply", "-f", "-", text=text.replace("9:0:0@00112233", "earliest"))
    assert again.exit_code == 0, "the same file continues"


def test_mistakes_are_named_with_their_lines_before_anything_changes(run: Run) -> None:
    wrong = run("apply", "-f", "-", text="[namespaces.a]\n[namespaces.b]\npolicy = { x = 1 }\n")
    assert wrong.exit_code == 2
    assert "standard input:3: x: unknown key x" in wrong.stderr
    region = run("diff", "-f", "-", text="[namespaces.a.policy]\nregions = ['eu']\n")
    assert region.exit_code == 2
    assert "no bookie is in region eu" in region.stderr
    assert run("diff", "-f", "@absent.toml").exit_code == 2
    assert json.loads(run("namespace", "ls", "-o", "json").stdout) == []
