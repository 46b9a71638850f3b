"""Hosts as network namespaces, each with its own files in a few directories, and its own name.

Needs root. The network is that of ``RegionNetworks``. A host sees its own /etc, a layer above
the machine's, and its own /var/lib/rhumbline; everything else is the machine's. ``scp`` and
``systemctl`` are stand-ins: there is no SSH server and no systemd in a namespace.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ...managed_process import bare_environment
from ..partition.region_networks import RegionNetworks

PACKAGE = Path(__file__).resolve().parents[3]
_OWN = ("etc/rhumbline", "var/lib/rhumbline", "etc/systemd/system")
_COMMAND_S_MAX = 300

# The user of the services must reach the interpreter, which is often in a home directory.
_OPEN_PYTHON = f"""python={shlex.quote(sys.base_prefix)}; kept=$GUIDE_HOSTS/python
home={shlex.quote(str(Path.home()))}
case $python in "$home"/*)
  mkdir -p "$kept"; mount --bind "$python" "$kept"
  mount -t tmpfs -o mode=755 tmpfs "$home"; mkdir -p "$python"; mount --bind "$kept" "$python"
esac
"""

_SCP = """#!/bin/bash
target=${@: -1}; host=${target%%:*}; host=${host%%.*}
cp "${@:1:$#-1}" "$GUIDE_HOSTS/$host${target#*:}"
"""


class GuideHosts:
    """The hosts of a guide. ``close`` ends their processes and removes their networks."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.networks = RegionNetworks(names)
        self._names = names
        self._bin = folder / "bin"
        self._made: list[Path] = []
        self._build()

    def _build(self) -> None:
        self._bin.mkdir(parents=True)
        self._script("scp", _SCP)
        manager = f"{shlex.quote(sys.executable)} -m rhumbline.chaos.lab.guide.service_manager"
        self._script("systemctl", f'#!/bin/bash\nexec {manager} "$@"\n')
        for name in self._names:
            for own in _OWN:
                (self.folder / name / own).mkdir(parents=True)
            for other in ("run", "home", "upper", "scratch"):
                (self.folder / name / other).mkdir()
            (self.folder / name / "upper").chmod(0o755)
        for own in _OWN:
            if not Path("/", own).exists():
                Path("/", own).mkdir(parents=True)
                self._made.append(Path("/", own))
        lines = ["127.0.0.1 localhost"]
        for name in self._names:
            region = name.partition("-")[0]
            other = f" etcd-{region}.example.com" if name == f"{region}-1" else ""
            lines.append(f"{self.networks.address(name)} {name}.example.com {name}{other}")
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")

    def _script(self, name: str, text: str) -> None:
        path = self._bin / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, host: str, commands: str) -> "subprocess.CompletedProcess[str]":
        """Run commands on a host by bash, which stops at the first one that fails."""
        mounts = [(str(self.folder / host / own), f"/{own}") for own in _OWN]
        mounts.append((str(self.folder / "hosts"), "/etc/hosts"))
        layer = self.folder / host
        options = f"lowerdir=/etc,upperdir={layer}/upper,workdir={layer}/scratch"
        script = f"mount -t overlay overlay -o {options} /etc\n"
        script += "".join(f"mount --bind {shlex.quote(a)} {shlex.quote(b)}\n" for a, b in mounts)
        script += _OPEN_PYTHON
        home = layer / "home"
        script += f"hostname {host}; export HOSTNAME={host}; cd {shlex.quote(str(home))}\n"
        script += f"ln -sfn {shlex.quote(str(PACKAGE / 'deploy'))} deploy\n"
        script += commands
        command = ["unshare", "--mount", "--uts", "bash", "-euo", "pipefail", "-c", script]
        return subprocess.run(
            self.networks.command(host, command),
            capture_output=True,
            text=True,
            timeout=_COMMAND_S_MAX,
            env=self._environment(host),
            check=False,
        )

    def processes(self) -> Iterator[int]:
        """Yield the ids of the processes that the hosts' service managers started."""
        for file in self.folder.glob("*/run/*.pid"):
            yield int(file.read_text())

    def close(self) -> None:
        """End all processes and remove the networks. Safe to repeat."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.networks.close()
        for path in reversed(self._made):
            with suppress(OSError):
                path.rmdir()
        shutil.rmtree(self._bin, ignore_errors=True)

    def _environment(self, host: str) -> dict[str, str]:
        own = Path(sys.executable).parent
        return {
            **bare_environment(),
            "PATH": f"{self._bin}:{own}:{os.environ['PATH']}",
            "GUIDE_HOSTS": str(self.folder),
            "GUIDE_RUN": str(self.folder / host / "run"),
        }
