"""Keys are fetched within one deadline, whatever the server sends slowly."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from rhumbline.access.key_fetch import fetch

Serve = Callable[[socket.socket, threading.Event], None]


@contextmanager
def serving(serve: Serve) -> Iterator[int]:
    """Serve one connection in a thread, which the event tells to end; yield the port."""
    over = threading.Event()

    def run() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):  # the client may give up
            serve(connection, over)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run)
        thread.start()
        yield listener.getsockname()[1]
        over.set()
        thread.join()


def reply(data: bytes, pause_s: float = 0, piece: int = 1 << 20) -> Serve:
    """Return a server that sends ``data`` in pieces, with pauses, and then waits."""

    def serve(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(10_000)
        for begin in range(0, len(data), piece):
            connection.sendall(data[begin : begin + piece])
            if over.wait(pause_s):
                return

    return serve


HEAD = b"HTTP/1.1 200 OK\r\n"


def test_document_is_fetched() -> None:
    with serving(reply(HEAD + b"Content-Length: 4\r\n\r\nkeys", 0.001, 7)) as port:
        assert fetch(f"http://127.0.0.1:{port}/", bytes_max=9, seconds_max=60) == b"keys"
    with serving(reply(HEAD + b"\r\n" + bytes(100_000))) as port:
        assert 10 < len(fetch(f"http://127.0.0.1:{port}/", bytes_max=9, seconds_max=60)) <= 65_536


@pytest.mark.parametrize(
    ("scheme", "data"),
    [
        ("http", b""),
        ("http", b"H" * 1000),
        ("http", HEAD + b"X: y\r\n" * 1000),
        ("http", HEAD + b"Content-Length: 1000\r\n\r\n" + bytes(1000)),
        ("https", b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" + bytes(1000)),
    ],
    ids=["silence", "status line", "headers", "body", "TLS handshake"],
)
def test_server_that_sends_slowly_is_given_up(scheme: str, data: bytes) -> None:
    slow = reply(data, 0.02, 1) if data else lambda _, over: over.wait(60)
    began = time.monotonic()
    with serving(slow) as port, pytest.raises(TimeoutError, match=r"within 0\.1 s"):
        fetch(f"{scheme}://127.0.0.1:{port}/", bytes_max=99, seconds_max=0.1)
    print(f"given up after {time.monotonic() - began:.2f} s")


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"HTTP/1.1 404 No\r\n\r\n"])
def test_response_without_a_document_is_an_error(data: bytes) -> None:
    with serving(reply(data)) as port, pytest.raises(OSError, match=r"\w+: .+"):
        fetch(f"http://127.0.0.1:{port}/", bytes_max=99, seconds_max=60)
