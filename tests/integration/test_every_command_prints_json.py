"""Every command prints a document that follows its schema, and JSON lines on stderr.

The program compares each document with its schema before it prints it. Commands that need a server
of another kind, or that run for ever, are listed with the test that runs them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rhumbline.cli.main import main
from rhumbline.cli.output_events import EVENTS
from rhumbline.cli.output_schema import faults
from rhumbline.cli.reference.command_tree import all_commands
from rhumbline.tests.support.processes.background_cluster import REGION, STREAM, BackgroundCluster

ELSEWHERE = {
    "archive serve": "tests/contract/test_killed_archivers.py",
    "bench": "tests/integration/test_benchmarks_measure.py",
    "bookie inventory": "tests/integration/stores/test_lost_metadata_is_rebuilt.py",
    "bookie clear-limbo": "tests/integration/test_stopped_bookie_commands.py",
    "bookie rebuild-index": "tests/integration/test_stopped_bookie_commands.py",
    "bookie run": "the real processes of all tests",
    "bookie verify": "tests/integration/test_stopped_bookie_commands.py",
    "bookie ls": "tests/integration/test_stopped_bookie_commands.py",
    "bookie dump": "tests/integration/test_stopped_bookie_commands.py",
    "chaos overhead": "needs toxiproxy",
    "chaos report": "tests/unit/cli/operate/test_chaos.py",
    "chaos run": "tests/unit/cli/operate/test_chaos.py",
    "cluster join-store": "tests/integration/regions",
    "console": "tests/integration/console",
    "demo": "tests/integration/spark/test_the_demo_ends_with_a_query.py",
    "dev": "tests/integration/test_commands_wait.py",
    "metadata migrate": "tests/integration/stores",
    "metadata rebuild": "tests/integration/stores/test_lost_metadata_is_rebuilt.py",
    "metadata restore": "tests/integration/stores/test_lost_metadata_is_rebuilt.py",
    "namespace move": "tests/integration/regions",
    "proxy drain": "tests/integration/proxies",
    "proxy pin": "tests/integration/proxies",
    "proxy release": "tests/integration/proxies",
    "proxy undrain": "tests/integration/proxies",
    "proxy unpin": "tests/integration/proxies",
    "read-proxy": "tests/integration/proxies",
    "repair run": "tests/integration/test_old_data_commands.py",
    "spark": "tests/integration/spark",
    "write-proxy": "tests/integration/proxies",
}
"""Commands that other tests run, by the beginning of their path."""

STEPS = """
access grant app append,read stream:default/*
access check app append stream:default/x
access explain app delete stream:default/x
access ls
access revoke app all stream:default/*
apply -f {root}/declared.toml
archive ls
archive run
archive index --update
archive tables --update --set archive.tables=sqlite://{root}/tables.db
archive reconcile
archive restore s --as back
archive verify
archive erasures --positions
bookie format {root}/new --name new
chaos ls
cluster describe
cluster features
cluster features --raise 4
cluster init
completion bash
config check
config explain
config explain ledger.request_timeout_ms
doctor
diff -f {root}/declared.toml
durability
export
metadata backup --to {root}/metadata.backup
metadata release
metadata get /ledgers/INSTANCEID
metadata ls
metadata status
namespace create extra
namespace describe extra
namespace ls
namespace set-policy extra --quorum 3/3/2
namespace delete extra
node adopt --regions {root}/regions.toml
node ls
node stat
node decommission new --no-wait
node drain new --no-wait
node undrain new
plan
proxy assignments
proxy balance --plan
proxy ls
quota set principal:ada --append-bytes 1MiB --calls 5 --connections 3
quota ls
quota usage
quota rm principal:ada
rebalance plan
rebalance start
rebalance status
rebalance pause
rebalance resume
rebalance stop
region disallow here
region drain here --no-wait --force
region offline here
region ls
region add here
region add mars
region remove mars
region undrain here
security forward-audit audit --once --set audit.file={root}/audit.jsonl
security init {root}/tls --host b1.example
security issue {root}/tls app --role client
security token {root}/tokens app --role client
security show {tls}
repair ls
repair drains
repair inspect s
repair fix s
segment ls s
stream create t
stream append t --file {root}/lines --key k --header a=1 --event-time 2026-01-31T12:00Z
stream read t
stream tail t
stream describe s
stream describe t
stream ls
stream recover t
stream home t
stream home t here
stream home t --suggest
stream roll t
stream seal t
stream unseal t
stream set-policy t --retention 1h
stream truncate t 2:0:0
stream untruncate t
stream read t --from-time 1h{sp}ago
stream read t --from event-time:2026-01-31T12:00Z
stream delete t --yes
subscription create s mine
subscription seek s mine --to latest
subscription ls s
subscription describe s mine
subscription delete s mine
topic create o --partitions 2
topic append o --file {root}/keyed --key-separator :
topic ls
topic describe o
topic grow o --partitions 3
group reset o g --to time:1h{sp}ago
group ls o
group describe o g
group delete o g
topic delete o --yes
sql --tables
sql select{sp}*{sp}from{sp}streams,segments,ledgers,fragments,bookies,proxies,metrics
top --once --interval 200ms
"""


_TLS = (
    "--set tls.certificate={root}/tls/app.pem --set tls.key={root}/tls/app.key "
    "--set tls.ca={root}/tls/ca.pem"
)
_ALONE = (["security", "init"], ["security", "issue"], ["security", "token"])
"""Commands that need no cluster."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BackgroundCluster, Path]]:
    root = tmp_path_factory.mktemp("json")
    (root / "lines").write_text("one\ntwo\n")
    (root / "keyed").write_text("a:1\nb:2\n")
    (root / "regions.toml").write_text('[regions]\n"::/0" = "bonn"\n')
    (root / "declared.toml").write_text("[namespaces.declared.streams.s]\n")
    with BackgroundCluster(root) as running:
        running.write_segments(2)
        yield running, root


def run(cluster: tuple[BackgroundCluster, Path], step: str, form: str) -> Result:
    running, root = cluster
    step = step.replace("{tls}", _TLS)
    arguments = [part.format(root=root, sp=" ") for part in step.split()]
    if arguments[0] not in ("chaos", "completion", "config") and arguments[:2] not in _ALONE:
        arguments += ["-u", running.metadata_uri, "-n", "test", "--region", REGION]
        arguments += ["--set", f"cluster.cold={running.cold_uri}"]
    return CliRunner().invoke(main, [*arguments, "--output", form])


def events_of(result: Result) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in result.stderr.splitlines()]
    for event in events:
        assert list(faults(event, EVENTS[event["event"]])) == []
    return events


def test_every_command_is_run() -> None:
    known = [path.removeprefix("rhumbline ") for path, _ in all_commands()]
    steps = STEPS.strip().splitlines()
    for path in known:
        is_run = any(f"{step} ".startswith(f"{path} ") for step in steps)
        is_elsewhere = any(f"{path} ".startswith(f"{name} ") for name in ELSEWHERE)
        assert is_run or is_elsewhere, f"add a step for {path}"


def test_every_command_prints_documents_and_events(
    cluster: tuple[BackgroundCluster, Path],
) -> None:
    assert STREAM == "s"
    failures = []
    for number, step in enumerate(STEPS.strip().splitlines()):
        form = ("json", "jsonl")[number % 2]
        result = run(cluster, step, form)
        if result.exit_code and step != "doctor":
            failures.append(f"{step}: {result.output or result.exception!r}")
            continue
        lines = [result.stdout] if form == "json" else result.stdout.splitlines()
        documents = [json.loads(line) for line in lines]
        assert documents or form == "jsonl", step
        events_of(result)
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(
    ("step", "code", "exit_code"),
    [
        ("stream read unknown", "no-such-stream", 4),
        ("stream read s --from 999:0:0", "no-such-object", 4),
        ("stream create s", "stream-exists", 1),
        ("stream create x --quorum 3/3/1", "unsafe", 3),
        ("stream read", "usage", 2),
        ("node ls --wait 9 --timeout 10ms", "deadline-exceeded", 5),
    ],
)
def test_errors_are_events_with_a_code(
    cluster: tuple[BackgroundCluster, Path], step: str, code: str, exit_code: int
) -> None:
    result = run(cluster, step, "json")
    *_, last = events_of(result)
    assert (last["event"], last["code"], last["exit_code"]) == ("error", code, exit_code)
    assert result.exit_code == exit_code
