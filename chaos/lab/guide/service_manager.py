"""A stand-in for ``systemctl`` on hosts without systemd: starts what a unit says, and waits for it.

``enable --now UNIT ...``, ``start``, ``restart``, ``stop`` and ``disable --now``. It knows
``ExecStart``, ``User`` and ``Type=notify`` of a unit; hardening and the watchdog are not applied.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_UNITS = Path("/etc/systemd/system")
_READY_S_MAX = 120.0
_STOP_S_MAX = 60.0
_POLL_S = 0.05


class ServiceUnit:
    """A service of this host. Its process id and its output are files of the host."""

    def __init__(self, name: str) -> None:
        self.name = name
        run = Path(os.environ["GUIDE_RUN"])
        self._pid_file = run / f"{name}.pid"
        self._log_file = run / f"{name}.log"

    def command(self) -> list[str]:
        """Return what ``ExecStart`` of the unit says, with the installed program, as its user."""
        lines = (_UNITS / f"{self.name}.service").read_text().splitlines()
        said = dict(
            line.split("=", 1) for line in lines if line.startswith(("ExecStart=", "User="))
        )
        program, *arguments = shlex.split(said["ExecStart"])
        user = [f"--reuid={said['User']}", f"--regid={said['User']}", "--init-groups"]
        return ["setpriv", *user, Path(program).name, *arguments]

    def start(self) -> None:
        """Start the service, and return when it says that it is ready. Raises TimeoutError."""
        address = f"guide-{os.getpid()}-{self.name}"  # abstract: the path of a file may be too long
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(f"\0{address}")
            notify.settimeout(_READY_S_MAX)
            with self._log_file.open("ab") as log:
                process = subprocess.Popen(
                    self.command(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "NOTIFY_SOCKET": f"@{address}"},
                )
            self._pid_file.write_text(str(process.pid))
            while b"READY=1" not in notify.recv(4096):
                pass

    def stop(self) -> None:
        """Stop the service by SIGTERM, and return when it has ended."""
        if not self._pid_file.exists():
            return
        process = int(self._pid_file.read_text())
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S_MAX
        while _is_alive(process):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not stop within {_STOP_S_MAX:.0f} s")
            time.sleep(_POLL_S)
        self._pid_file.unlink()


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def main() -> None:
    """Run the command line."""
    verb, *rest = sys.argv[1:]
    for name in rest:
        if name == "--now":
            continue
        unit = ServiceUnit(name.removesuffix(".service"))
        if verb in ("restart", "stop", "disable"):
            unit.stop()
        if verb in ("restart", "start", "enable"):
            unit.start()


if __name__ == "__main__":
    main()
