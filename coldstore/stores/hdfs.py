"""The cold store in HDFS by WebHDFS, with the ``hdfs`` package (imported here alone).

An object is written to a temporary file and renamed to its name. WebHDFS's rename refuses to
replace a file and is atomic in the NameNode, so of several writers exactly one wins; the others
remove what they wrote. Temporary files are in a folder of their own; what a crash left there goes
when a later process writes for the first time, once it is a day old.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import Any, TypeVar

import hdfs
import requests
import urllib3

from ...core.protocol.errors import (
    DiskFullError,
    InvalidArgumentError,
    NoSuchObjectError,
    RhumblineError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
)
from ...core.runtime.cold_store import OBJECT_BYTES_MAX, ObjectStat, check_key
from .blocking_calls import BlockingCalls

T = TypeVar("T")

_UPLOADING = ".uploading"
_LEFTOVER_AGE_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class HdfsOptions:
    """``url``: the NameNode's HTTP address, several separated by ``;`` for high availability."""

    url: str
    root: str
    user: str = "rhumbline"
    timeout_ms: int = 60_000
    threads: int = 4


class HdfsColdStore:
    """Objects as files below ``root``."""

    def __init__(self, options: HdfsOptions) -> None:
        if not options.root.startswith("/"):
            raise InvalidArgumentError(f"HDFS: the root must be absolute, not {options.root!r}")
        self._options = options
        self._root = options.root.rstrip("/")
        self._uploading = f"{self._root}/{_UPLOADING}"
        self._calls = BlockingCalls("HDFS", threads=options.threads, timeout_ms=options.timeout_ms)
        self._is_swept = False
        self._client: Any = hdfs.InsecureClient(
            options.url, user=options.user, timeout=max(1.0, options.timeout_ms / 1000)
        )

    @property
    def uri(self) -> str:
        """``webhdfs://host:port/root``."""
        return f"web{self._options.url.replace('http://', 'hdfs://', 1)}{self._root}"

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        path = self._path(key)
        if len(data) > OBJECT_BYTES_MAX:
            raise InvalidArgumentError(f"{key}: {len(data)} bytes are above {OBJECT_BYTES_MAX}")
        if not self._is_swept:
            self._is_swept = True
            await self._calls.write(lambda: _typed(self._sweep, self._uploading, True))
        return await self._calls.write(lambda: self._put(path, data))

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        path = self._path(key)

        def call() -> bytes:
            size = int(self._client.status(path)["length"])
            wanted = size - offset if length is None else min(length, size - offset)
            if wanted <= 0:
                return b""
            with self._client.read(path, offset=offset, length=wanted) as reader:
                data: bytes = reader.read()
            if len(data) != wanted:
                raise UnavailableError(f"{path}: {len(data)} of {wanted} bytes came")
            return data

        return await self._calls.read(lambda: _typed(call, path))

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore. HDFS keeps a checksum of its own kind, which proves nothing to us."""
        path = self._path(key)

        def call() -> ObjectStat:
            found = self._client.status(path)
            if found["type"] != "FILE":
                raise NoSuchObjectError(f"no object {key}: it is a directory")
            return ObjectStat(int(found["length"]), None)

        return await self._calls.read(lambda: _typed(call, path))

    async def list(self, prefix: str = "") -> list[str]:
        """See ColdStore."""
        top = self._path(prefix) if prefix else self._root

        def call() -> list[str]:
            found = self._client.status(top, strict=False)
            if found is None:
                return []
            if found["type"] == "FILE":
                return [prefix]
            return sorted(
                f"{directory}/{name}"[len(self._root) + 1 :]
                for directory, _, names in self._client.walk(top)
                for name in names
                if directory != self._uploading
            )

        return await self._calls.read(lambda: _typed(call, top))

    async def delete(self, key: str) -> None:
        """See ColdStore. Directories that become empty stay."""
        path = self._path(key)
        await self._calls.write(lambda: _typed(lambda: self._client.delete(path), path, True))

    async def close(self) -> None:
        """See ColdStore."""
        await self._calls.close()

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _sweep(self) -> None:
        if self._client.status(self._uploading, strict=False) is None:
            return
        limit_ms = time.time() * 1000 - _LEFTOVER_AGE_MS
        for name, found in self._client.list(self._uploading, status=True):
            if found["modificationTime"] <= limit_ms:
                self._client.delete(f"{self._uploading}/{name}")

    def _put(self, path: str, data: bytes) -> bool:
        directory, _, _ = path.rpartition("/")
        temporary = f"{self._uploading}/{SystemRandom().getrandbits(64):016x}"

        def call() -> bool:
            if self._client.status(path, strict=False) is not None:
                return False
            self._client.write(temporary, data=data, overwrite=False)
            self._client.makedirs(directory)
            try:
                self._client.rename(temporary, path)
            except hdfs.HdfsError:
                won = self._client.status(temporary, strict=False) is None
                if not won and self._client.status(path, strict=False) is None:
                    raise
                return won
            return True

        try:
            return _typed(call, path, True)
        finally:
            with contextlib.suppress(hdfs.HdfsError, requests.RequestException, OSError):
                self._client.delete(temporary)


def _typed(call: Callable[[], T], path: str, writes: bool = False) -> T:
    try:
        return call()
    except hdfs.HdfsError as error:
        raise _translated(error, path) from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        kind = UnknownOutcomeError if writes else UnavailableError
        raise kind(f"HDFS, {path}: {error}") from error


def _translated(error: hdfs.HdfsError, path: str) -> RhumblineError:
    text = f"{error.exception or ''} {error.message}"
    short = f"HDFS, {path}: {error.message.splitlines()[0] if error.message else error}"
    for words, kind in (
        (("FileNotFoundException", "does not exist"), NoSuchObjectError),
        (("AccessControlException", "Permission denied", "SecurityException"), UnauthorizedError),
        (("DSQuotaExceeded", "NSQuotaExceeded", "could only be written to 0"), DiskFullError),
    ):
        if any(word in text for word in words):
            return kind(short)
    return UnavailableError(short)
