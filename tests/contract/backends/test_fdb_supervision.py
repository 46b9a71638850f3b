"""Tests of how tests find, start and stop FoundationDB, with programs that stand in for it.

They check command lines, ports, waiting and signals only, and say nothing about FoundationDB.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.chaos.lab.wan.metadata import fdb
from rhumbline.chaos.lab.wan.metadata.fdb import FdbMember, FdbPrograms
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.tests.support.servers.fdb_faults import OF_THREE
from rhumbline.tests.support.servers.fdb_servers import FdbCluster, find_programs
from rhumbline.tests.support.servers.installs import NotInstalledError

GUIDE = Path(__file__).parents[3] / "docs/how-to/choose-a-metadata-store.md"

SERVER = f"""#!{sys.executable} -IS
import json, os, signal, socket, sys
options = dict(word[2:].split("=", 1) for word in sys.argv[1:])
os.makedirs(options["datadir"], exist_ok=True)
with open(os.path.join(options["logdir"], "options"), "w") as file:
    json.dump(options, file)
listener = socket.create_server(("127.0.0.1", int(options["public-address"].split(":")[1])))
while True:
    listener.accept()[0].close()
"""
CLI = f"""#!{sys.executable} -IS
import os, sys
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
command = sys.argv[sys.argv.index("--exec") + 1]
with open(os.path.join(os.path.dirname(options["cluster-file"]), "commands"), "a") as file:
    file.write(command + "\\n")
if command.startswith("configure"):
    print("Database created")
elif command == "status json":
    count = sum(1 for line in open(file.name) if line == "status json\\n")
    healthy = "true" if count > 1 else "false"
    print('a warning\\n{{"client": {{"database_status": {{"available": true}}}},')
    print('"cluster": {{"data": {{"state": {{"healthy": ' + healthy + '}}}},')
    print('"fault_tolerance": {{"max_zone_failures_without_losing_availability": 1}}}}}}')
elif command.startswith("coordinators"):
    print("Coordination state changed")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "fdb"
    folder.mkdir()
    for name, text in (("fdbserver", SERVER), ("fdbcli", CLI), ("libfdb_c.so", "")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def three(home: Path) -> Iterator[FdbCluster]:
    programs = find_programs({"RHUMBLINE_FDB_HOME": str(home)})
    cluster = FdbCluster(3, programs=programs, ready_s=30)
    cluster.start()
    yield cluster
    cluster.remove()


def state_of(process_id: int) -> str:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]


def commands(cluster: FdbCluster) -> list[str]:
    return (cluster.directory / "commands").read_text().splitlines()


def test_the_named_folder_is_used_and_must_be_complete(home: Path) -> None:
    assert find_programs({"RHUMBLINE_FDB_HOME": str(home)}) == FdbPrograms(
        home / "fdbserver", home / "fdbcli"
    )
    (home / "libfdb_c.so").unlink()
    with pytest.raises(ConfigurationError, match=r"has no libfdb_c\.so"):
        find_programs({"RHUMBLINE_FDB_HOME": str(home)})


def test_a_machine_without_foundationdb_is_told_how_to_install_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs in the search path do not help without the library."""
    monkeypatch.setattr(fdb, "_INSTALLED", ())
    monkeypatch.setattr(fdb, "LIBRARY", "libfdb_c-that-does-not-exist.so")
    for path in (str(home), ""):
        with pytest.raises(NotInstalledError, match="RHUMBLINE_FDB_HOME"):
            find_programs({"PATH": path})


def test_three_processes_have_zones_ports_and_one_cluster_file(three: FdbCluster) -> None:
    found = [json.loads((server.directory / "options").read_text()) for server in three.servers]
    assert len({options["locality-zoneid"] for options in found}) == 3
    assert len({options["datadir"] for options in found}) == 3
    assert {options["cluster-file"] for options in found} == {str(three.file)}
    assert {(options["memory"], options["cache-memory"]) for options in found} == {
        ("2GiB", "256MiB")
    }
    addresses = three.file.read_text().strip().partition("@")[2].split(",")
    assert addresses == [options["public-address"] for options in found]
    assert len(set(addresses)) == 3
    assert commands(three) == ["configure new double ssd", "status json", "status json"]


def test_processes_can_be_killed_frozen_and_started_again(three: FdbCluster) -> None:
    first, second, _ = three.servers
    first.kill()
    assert not first.is_ready()
    first.launch()
    first.wait_ready()
    second.pause()
    deadline = time.monotonic() + 10
    while state_of(second.pid) != "T":
        assert time.monotonic() < deadline, "the process is not stopped"
        time.sleep(0.01)
    second.resume()
    second.wait_ready()
    three.move_coordinators(first)
    assert commands(three)[-1] == f"coordinators {first.address}"


def test_nothing_remains_of_a_cluster(three: FdbCluster) -> None:
    ids = [server.pid for server in three.servers]
    three.remove()
    assert not three.directory.exists()
    for number in ids:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_a_cluster_that_does_not_get_ready_ends_with_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "fdbcli").write_text(CLI.replace('"Database created"', '"ERROR: no"'))
    cluster = FdbCluster(programs=find_programs({"RHUMBLINE_FDB_HOME": str(home)}), ready_s=0.5)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="the database"):
        cluster.start()
    assert time.monotonic() - began < 60
    assert not cluster.directory.exists()


def test_the_guide_lists_every_fault() -> None:
    section = GUIDE.read_text().partition("Faults of a cluster of three processes")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    listed = {f"{what}: {fault}".lower() for what, fault in rows}
    for fault in OF_THREE:
        assert fault.__doc__ is not None
        assert fault.__doc__.rstrip(".").lower() in listed, fault.__doc__


def test_the_lab_starts_a_process_in_each_region_behind_its_link(
    home: Path, tmp_path: Path
) -> None:
    """Processes listen at their own ports and advertise the addresses of their links."""
    programs = find_programs({"RHUMBLINE_FDB_HOME": str(home)})
    regions = enumerate(("east", "north", "west"), 1)
    members = [FdbMember(region, number, tmp_path, programs) for number, region in regions]
    for member in members:
        member.peer_address = f"127.0.0.1:{member.election_port}"  # the link's
    try:
        for member in members:
            member.join(members)
            assert f"--public-address={member.peer_address}" in member.program.command
            assert f"--listen-address=127.0.0.1:{member.peer_port}" in member.program.command
        coordinators = ",".join(member.peer_address for member in members)
        assert (tmp_path / "fdb.cluster").read_text() == f"lab:rhumbline@{coordinators}\n"
        assert members[0].uri("ignored") == f"fdb://{tmp_path}/fdb.cluster?dir=lab"
        assert not members[0].is_ready()
        assert (tmp_path / "commands").read_text().splitlines() == [
            "status minimal",
            "configure new double ssd",
        ]
        (home / "fdbcli").write_text(
            f"#!/bin/sh\necho 'The database is available.'\necho '{controller_at(members[2])}'\n"
        )
        assert members[0].is_ready()
        assert [member.is_leader() for member in members] == [False, False, True]
    finally:
        for member in members:
            member.program.kill()


def controller_at(member: FdbMember) -> str:
    """Return a status in which a process is the cluster controller."""
    process = {"address": member.peer_address, "roles": [{"role": "cluster_controller"}]}
    other = {"address": "127.0.0.1:1", "roles": [{"role": "storage"}]}
    return json.dumps({"cluster": {"processes": {"a": other, "b": process}}})
