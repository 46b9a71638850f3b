"""Audit events of commands: which commands are acts, and what is recorded of one."""

import json
from pathlib import Path

from click.testing import CliRunner

from rhumbline.cli.command_audit import is_act
from rhumbline.cli.main import main
from rhumbline.cli.reference.command_tree import all_commands

LOCAL = {"dev", "security init", "security issue", "security token"}
"""They change files of this machine and have no settings, so they are not audited."""
ACTS = """
access grant, access revoke, archive restore, archive run, bookie clear-limbo, bookie format, bookie
inventory, bookie rebuild-index, cluster init, cluster join-store, group delete, group reset,
metadata backup, metadata migrate, metadata rebuild, metadata release, metadata restore, namespace
create, namespace delete, namespace move, namespace set-policy, node adopt, node decommission, node
drain, node undrain, proxy drain, proxy pin, proxy release, proxy undrain, proxy unpin, quota rm,
quota set, rebalance pause, rebalance resume, rebalance start, rebalance stop, region add, region
disallow, region drain, region offline, region remove, region undrain, repair fix, spark archive,
spark compact, spark convert, spark copy, spark erase, spark profile, spark replay, spark retain,
spark split, stream create, stream delete, stream home, stream recover, stream roll, stream seal,
stream set-policy, stream truncate, stream unseal, stream untruncate, subscription create,
subscription delete, subscription seek, topic create, topic delete, topic grow
"""


def test_the_commands_that_change_a_cluster() -> None:
    named = {path.partition(" ")[2]: command for path, command in all_commands()}
    acts = {path for path, command in named.items() if is_act(path, command)}
    assert acts - LOCAL == {" ".join(name.split()) for name in ACTS.split(",")}


def test_a_command_is_recorded_without_options_and_credentials(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    uri = f"sqlite://{tmp_path}/m.db"
    shared = ["--metadata", uri, "--set", f"audit.file={audit}"]
    runner = CliRunner()
    assert runner.invoke(main, ["cluster", "init", *shared]).exit_code == 0
    assert runner.invoke(main, ["stream", "delete", "none", *shared]).exit_code != 0
    assert runner.invoke(main, ["stream", "ls", *shared]).exit_code != 0
    target = "zk://ada:s3cret@127.0.0.1:1/root?password=s3cret"
    assert runner.invoke(main, ["metadata", "migrate", uri, target, *shared]).exit_code != 0
    text = audit.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["action"], line["result"]) for line in lines] == [
        ("cluster init", "done"),
        ("stream delete", "failed"),
        ("metadata migrate", "failed"),
    ]
    assert lines[1]["resource"] == "namespace:default none"
    assert lines[1]["error"] == "no-such-stream"
    assert all(line["principal"].startswith("user:") for line in lines)
    assert "s3cret" not in text
