"""A restore says that nothing was lost only if it was compared with what bookies hold."""

import asyncio
from pathlib import Path

from click.testing import CliRunner

from rhumbline.cli.main import main
from rhumbline.tests.unit.cli.operate.test_durability import Cluster
from rhumbline.tests.unit.rebuild.test_rebuilt_tree import ALL, held, inventory, metadata


def test_an_empty_list_of_findings_says_what_was_compared(tmp_path: Path) -> None:
    cluster = Cluster(f"sqlite://{tmp_path}/metadata.db")
    asyncio.run(cluster.fill())
    backup, given = str(tmp_path / "backup"), list[str]()
    run("backup", cluster.uri, "--to", backup)
    shown = run("restore", backup, f"sqlite://{tmp_path}/as-it-was.db", "--as-is")
    assert shown == "not examined: the backup was taken as it is\n"
    for bookie in ALL:
        path = tmp_path / bookie
        path.write_bytes(inventory(bookie, held(metadata(1, 1), 4)).encode())
        given += ["--inventory", str(path)]
    rebuilt = f"sqlite://{tmp_path}/rebuilt.db"
    shown = run("rebuild", rebuilt, *given)
    assert shown == "no data of segments was found lost\n", "grants and more are"
    run("backup", rebuilt, "--to", backup)
    shown = run("restore", backup, f"sqlite://{tmp_path}/restored.db", *given)
    assert shown == "nothing was found lost\n"


def run(*arguments: str) -> str:
    """Run a subcommand of ``rhumbline metadata`` and return what it prints to stdout."""
    result = CliRunner().invoke(main, ["metadata", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout
