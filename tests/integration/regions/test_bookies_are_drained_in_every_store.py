"""An operator's command about a bookie takes effect in every metadata store that knows it."""

import json
from contextlib import ExitStack
from pathlib import Path

from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.tests.support.processes.process_cluster import rhumbline

PLACEMENT = "/ledgers/rhumbline/placement"


def test_states_are_set_in_the_global_and_in_the_regional_store(tmp_path: Path) -> None:
    stores = [f"sqlite://{tmp_path}/{name}.db" for name in ("global", "east")]
    environ = {
        "RHUMBLINE_CLUSTER__METADATA": stores[0],
        "RHUMBLINE_CLUSTER__REGIONAL_METADATA__EAST": stores[1],
    }

    def run(*arguments: str) -> str:
        done = rhumbline(*arguments, environ=environ)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def states() -> list[dict[str, dict[str, str]]]:
        return [json.loads(run("metadata", "get", PLACEMENT, "-u", store)) for store in stores]

    run("cluster", "init")
    run("cluster", "join-store", "east")
    with ExitStack() as closing:
        for name in ("one", "two"):
            run("bookie", "format", str(tmp_path / name), "--name", name, "--region", "east")
            closing.enter_context(BookieProcess(tmp_path / name, stores[0], environ=environ))
        run("namespace", "create", "local", "--store", "east")
        report = run("doctor", "--region", "east")
        assert "metadata store of east" in report
        assert "fault" not in report
        run("node", "drain", "one", "--no-wait", "--force")
        for found in states():
            [(bookie, state)] = found["bookies"].items()
            assert (bookie.partition("@")[0], state) == ("one", "drained")
        run("node", "undrain", "one")
        run("region", "disallow", "east")
        assert states() == [{"regions": {"east": "disallowed"}, "bookies": {}}] * 2
        run("region", "undrain", "east")
        assert states() == [{"regions": {}, "bookies": {}}] * 2
        forgetful = {"RHUMBLINE_CLUSTER__METADATA": stores[0]}
        for command in (("node", "decommission", "one"), ("region", "drain", "east")):
            refused = rhumbline(*command, environ=forgetful)
            assert refused.returncode == 3
            assert b"the metadata store of east, which may list" in refused.stderr
        assert states() == [{"regions": {}, "bookies": {}}] * 2, "nothing was ordered"
        assert b"not read: the metadata stores of east" in (
            rhumbline("durability", environ=forgetful).stderr
        )
