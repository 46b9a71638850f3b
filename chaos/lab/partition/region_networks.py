"""Regions as network namespaces of Linux, joined by a bridge; a cut takes the cable out.

Needs root. Everything that runs in a region keeps its connections inside it during a cut.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence

from ....core.protocol.errors import ConfigurationError


class RegionNetworks:
    """One network for each region. ``close`` removes them."""

    def __init__(self, regions: Sequence[str]) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise ConfigurationError("regions with networks of their own need root and `ip`")
        self._mark = os.getpid() % 60_000
        self._net = f"10.213.{self._mark % 250}"
        self._numbers = {region: number for number, region in enumerate(regions, 1)}
        self._bridge = f"rlb{self._mark}"
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        for region in self._numbers:
            name, inside, outside = self._name(region), "eth0", self._cable(region)
            _ip("netns", "add", name)
            _ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
            _ip("link", "set", outside, "master", self._bridge)
            _ip("link", "set", outside, "up")
            for command in (
                ("link", "set", "lo", "up"),
                ("addr", "add", f"{self.address(region)}/24", "dev", inside),
                ("link", "set", inside, "up"),
            ):
                _ip("-n", name, *command)

    def address(self, region: str) -> str:
        """Return the address of a region's network."""
        return f"{self._net}.{self._numbers[region]}"

    def command(self, region: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one in the network of a region."""
        return ["ip", "netns", "exec", self._name(region), *command]

    def cut(self, region: str) -> None:
        """Cut a region off from the others."""
        _ip("link", "set", self._cable(region), "down")

    def heal(self, region: str) -> None:
        """End a cut."""
        _ip("link", "set", self._cable(region), "up")

    def close(self) -> None:
        """Remove the networks. Safe to repeat."""
        for region in self._numbers:
            _ip("netns", "del", self._name(region), is_checked=False)
            _ip("link", "del", self._cable(region), is_checked=False)
        _ip("link", "del", self._bridge, is_checked=False)

    def _name(self, region: str) -> str:
        return f"rl{self._mark}-{region}"

    def _cable(self, region: str) -> str:
        return f"rl{self._mark}v{self._numbers[region]}"


def _ip(*arguments: str, is_checked: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if is_checked and done.returncode:
        raise ConfigurationError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
