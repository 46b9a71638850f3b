"""Tests of the messages to a service manager: readiness, status, watchdog, unusable sockets."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.cli.servers.service_manager import notify_ready
from rhumbline.core.protocol.errors import ConfigurationError


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Yield the socket of a service manager that asks for messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.delenv("WATCHDOG_USEC", raising=False)
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield receiver


def test_readiness_has_a_status_in_one_line(manager: socket.socket) -> None:
    notify_ready("serves at 127.0.0.1:3281\nMAINPID=1")
    expected = f"READY=1\nSTATUS=serves at 127.0.0.1:3281\nMAINPID={os.getpid()}"
    assert manager.recv(4096).decode() == expected


def test_long_status_is_cut_between_characters(manager: socket.socket) -> None:
    notify_ready("x" + "ü" * 1000)
    status = manager.recv(4096).decode().splitlines()[1]
    assert status == "STATUS=x" + "ü" * 255


def test_abstract_sockets_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"rhumbline-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name)
        receiver.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        notify_ready("ready")
        assert receiver.recv(4096).startswith(b"READY=1\n")


async def test_watchdog_hears_from_the_loop_twice_an_interval(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    manager.setblocking(False)
    loop = asyncio.get_running_loop()
    notify_ready("ready")
    async with asyncio.timeout(5):
        assert (await loop.sock_recv(manager, 4096)).startswith(b"READY=1\n")
        for _ in range(3):
            assert await loop.sock_recv(manager, 4096) == b"WATCHDOG=1"


async def test_watchdog_of_another_process_is_ignored(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    notify_ready("ready")
    assert manager.recv(4096).startswith(b"READY=1\n")
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)


def test_nothing_is_sent_without_a_service_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", "nonsense")
    notify_ready("ready")  # it raises for a watchdog without a number, if it looks


async def test_unusable_values_are_named(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "soon")
    with pytest.raises(ConfigurationError, match="WATCHDOG_USEC='soon'"):
        notify_ready("ready")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "absent"))
    with pytest.raises(ConfigurationError, match="absent: No such file"):
        notify_ready("ready")
