"""``python -m rhumbline.chaos.lab.guide``: follow the guide for three regions from its first step.

It runs the commands of docs/how-to/run-three-regions.md on hosts that are network namespaces, with
three members of etcd, and prints each block with its output and time. Needs root.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from ...managed_process import ManagedProcess
from ..wan.cluster import SERVERS
from ..wan.metadata.etcd import etcd_binary
from .guide_hosts import PACKAGE, GuideHosts
from .guide_page import GuideBlock, read_guide

REGIONS = ("eu", "us", "asia")
HOSTS = ("admin", *(f"{region}-{n}" for region in REGIONS for n in (1, 2)), "eu-3")
LOST = "asia"
_PAGE = PACKAGE / "docs/how-to/run-three-regions.md"


def start_etcd(hosts: GuideHosts) -> list[ManagedProcess]:
    """Start a member of etcd on the first host of each region, and wait until they serve."""
    names = {region: hosts.networks.address(f"{region}-1") for region in REGIONS}
    peers = ",".join(f"etcd-{region}=http://{address}:2380" for region, address in names.items())
    members = []
    for region, address in names.items():
        command = [
            str(etcd_binary(SERVERS)), f"--name=etcd-{region}", f"--data-dir=etcd-{region}",
            f"--listen-client-urls=http://{address}:2379",
            f"--advertise-client-urls=http://{address}:2379",
            f"--listen-peer-urls=http://{address}:2380",
            f"--initial-advertise-peer-urls=http://{address}:2380", f"--initial-cluster={peers}",
        ]  # fmt: skip
        member = ManagedProcess(
            f"etcd-{region}",
            hosts.networks.command(f"{region}-1", command),
            hosts.folder / f"etcd-{region}.log",
            ready="ready to serve",
            cwd=hosts.folder,
        )
        member.launch()
        members.append(member)
    for member in members:
        member.wait_ready()
    return members


def follow(hosts: GuideHosts, blocks: list[GuideBlock]) -> bool:
    """Run all blocks in order, and return whether each command succeeded."""
    section, section_s = "", 0.0
    for block in blocks:
        if block.section != section:
            if section:
                print(f"== {section}: {section_s:.1f} s\n", flush=True)
            section, section_s = block.section, 0.0
            print(f"== {section}", flush=True)
            change_network(hosts, section)
        for host in block.hosts:
            began = time.monotonic()
            done = hosts.run(host, block.commands)
            took_s = time.monotonic() - began
            section_s += took_s
            print(f"-- on {host}: {took_s:.1f} s, exit code {done.returncode}")
            if host == block.hosts[0]:
                print("".join(f"$ {line}\n" for line in block.commands.splitlines()), end="")
            if host == block.hosts[0] or done.returncode:
                print(done.stdout + done.stderr, end="", flush=True)
            if done.returncode:
                return False
    print(f"== {section}: {section_s:.1f} s", flush=True)
    return True


def change_network(hosts: GuideHosts, section: str) -> None:
    """Cut a region off where the guide loses it, and join it again where it returns."""
    for host in HOSTS:
        if host.startswith(f"{LOST}-"):
            if section == "Lose a region":
                hosts.networks.cut(host)
            elif section == "Return":
                hosts.networks.heal(host)


def follow_guide(folder: Path) -> bool:
    """Build the hosts in a folder, follow the guide, and return whether each command succeeded.

    Raises ConfigurationError if namespaces cannot be made.
    """
    began = time.monotonic()
    hosts = GuideHosts(folder, HOSTS)
    members: list[ManagedProcess] = []
    try:
        members = start_etcd(hosts)
        is_good = follow(hosts, read_guide(_PAGE.read_text()))
    finally:
        hosts.close()
        for member in members:
            member.kill()
    print(f"{'followed' if is_good else 'FAILED'} in {time.monotonic() - began:.1f} s")
    return is_good


def main() -> int:
    """Follow the guide. Returns 0 if each command succeeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep the files of the hosts here")
    given = parser.parse_args()
    return (
        0 if follow_guide(given.folder or Path(tempfile.mkdtemp(prefix="rhumbline-guide-"))) else 1
    )


if __name__ == "__main__":
    sys.exit(main())
