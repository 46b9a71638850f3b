"""A metadata store in one file, for the processes of one host: ``locked-file:///path/of/a.file``.

The first line of the file is its tag, and the rest is the content. A process that is stopped while
it replaces the file stops all other writes until it continues or ends.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Generator
from pathlib import Path

from rhumbline.errors import IndeterminateError, MetadataUnavailableError
from rhumbline.plugins import DocumentStore, StoreUri


async def open_locked_file(uri: StoreUri, timeout_ms: int) -> DocumentStore:
    """Open the file, or create it; its folder must exist."""
    uri.check_options(())
    if uri.authority or not uri.path.startswith("/"):
        raise uri.error("is not of the form locked-file:///absolute/path/of/a.file")
    store = DocumentStore(uri.text, LockedFile(Path(uri.path), timeout_ms), timeout_ms)
    await store.start()
    return store


class LockedFile:
    """A file that is replaced as a whole, under the lock of a second file beside it."""

    def __init__(self, path: Path, timeout_ms: int) -> None:
        self._path = path
        self._lock_s = timeout_ms / 2000

    async def read(self, known: str | None) -> tuple[str, bytes] | None:
        """Return the tag and the content; None if the tag is still ``known``."""
        return await asyncio.to_thread(self._read, known)

    async def replace(self, data: bytes, expect: str) -> str | None:
        """Write a new file if the tag is ``expect``, and return its tag; None if it is not."""
        return await asyncio.to_thread(self._replace, data, expect)

    async def close(self) -> None:
        """Do nothing: no file is open between calls."""

    def _read(self, known: str | None) -> tuple[str, bytes] | None:
        try:
            with self._path.open("rb") as file:
                tag = file.readline().decode("latin-1").rstrip("\n")
                return None if tag == known else (tag, file.read())
        except FileNotFoundError:
            return "", b""
        except OSError as error:
            raise MetadataUnavailableError(f"{self._path}: {error.strerror}") from error

    def _replace(self, data: bytes, expect: str) -> str | None:
        with self._locked():
            found = self._read(None)
            if found is None or found[0] != expect:
                return None
            tag = os.urandom(8).hex()
            temporary = self._path.with_suffix(".new")
            try:
                with temporary.open("wb") as file:
                    file.write(f"{tag}\n".encode() + data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.rename(self._path)
                folder = os.open(self._path.parent, os.O_RDONLY)
                os.fsync(folder)
                os.close(folder)
            except OSError as error:
                raise IndeterminateError(f"{self._path}: {error.strerror}") from error
            return tag

    @contextlib.contextmanager
    def _locked(self) -> Generator[None, None, None]:
        deadline = time.monotonic() + self._lock_s
        try:
            lock = self._path.with_suffix(".lock").open("w")
        except OSError as error:
            raise MetadataUnavailableError(f"{self._path}: {error.strerror}") from error
        with lock:  # closing the file releases the lock
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() >= deadline:
                    raise MetadataUnavailableError(f"{self._path} stayed locked")
                time.sleep(0.002)
            yield
