"""Messages to a service manager such as systemd (sd_notify(3)), which may also supply a watchdog.

Nothing is sent unless the manager asks for it by setting ``NOTIFY_SOCKET`` in the environment.
"""

import asyncio
import os
import socket

from ...core.protocol.errors import ConfigurationError

_STATUS_BYTES_MAX = 512


def notify_ready(status: str) -> None:
    """Tell the service manager that this process serves, with ``status`` in one line.

    If the manager supplies a watchdog, the running event loop reports to it twice in each of its
    intervals until the process ends: a loop that hangs is restarted. Raises ConfigurationError if
    the manager's socket does not accept the message.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    line = status.splitlines()[0] if status else ""
    text = line.encode()[:_STATUS_BYTES_MAX].decode(errors="ignore")
    _send(address, f"READY=1\nSTATUS={text}\nMAINPID={os.getpid()}")
    interval = _watchdog_seconds()
    if interval is not None:
        _report_alive(asyncio.get_running_loop(), address, interval / 2)


def _watchdog_seconds() -> float | None:
    text = os.environ.get("WATCHDOG_USEC", "")
    if not text or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ConfigurationError(f"WATCHDOG_USEC={text!r} is not a number of microseconds")
    return int(text) / 1e6


def _report_alive(loop: asyncio.AbstractEventLoop, address: str, pause: float) -> None:
    _send(address, "WATCHDOG=1")
    loop.call_later(pause, _report_alive, loop, address, pause)


def _send(address: str, message: str) -> None:
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.settimeout(1.0)
        try:
            sender.sendto(message.encode(), path)
        except OSError as error:
            raise ConfigurationError(
                f"NOTIFY_SOCKET={address}: {error.strerror or error}"
            ) from error
