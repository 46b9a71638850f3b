"""A cold store in HDFS that uses WebHDFS, over http or https. Only this module imports ``hdfs``.

HDFS either trusts the user name that is given, or has it proved with Kerberos.

An object is written to a temporary file, which is then renamed to the object's name. The rename of
WebHDFS refuses to replace a file and is atomic in the NameNode, so exactly one of several writers
succeeds; the others delete their temporary files. Temporary files have a folder of their own. The
first write of each process deletes temporary files there that a crash left behind at least a day
ago.
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
from .authorities import check_authorities
from .blocking_calls import BlockingCalls
from .kerberos import TicketAuth

T = TypeVar("T")

_UPLOADING = ".uploading"
_FAILURES = (hdfs.HdfsError, requests.RequestException, OSError, RhumblineError)
_REFUSED = (
    "AccessControlException", "Permission denied", "SecurityException", "Authentication failure",
)  # fmt: skip
_LEFTOVER_AGE_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class HdfsOptions:
    """The address, user and limits of an HDFS store.

    ``url`` is the http or https address of the NameNode; for high availability give several,
    separated by ``;``. ``ca`` is a PEM file with the authorities that https servers are verified
    by; None: those that ``requests`` trusts. With ``kerberos`` the user is that of the process's
    Kerberos ticket, and ``user`` is not used. ``timeout_ms`` is the deadline of each call.
    """

    url: str
    root: str
    user: str = "rhumbline"
    ca: str | None = None
    kerberos: bool = False
    timeout_ms: int = 60_000
    threads: int = 4


class HdfsColdStore:
    """Stores objects as files below ``root``.

    Raises InvalidArgumentError for a relative root, ConfigurationError for a bad ``ca`` or if
    Kerberos is not installed.
    """

    def __init__(self, options: HdfsOptions) -> None:
        if not options.root.startswith("/"):
            raise InvalidArgumentError(f"HDFS: root {options.root!r} is not an absolute path")
        self._options = options
        self._root = options.root.rstrip("/")
        self._uploading = f"{self._root}/{_UPLOADING}"
        self._calls = BlockingCalls("HDFS", threads=options.threads, timeout_ms=options.timeout_ms)
        self._is_swept = False
        self._client: Any = _client(options)

    @property
    def uri(self) -> str:
        """The URI ``webhdfs://host:port/root``, or ``swebhdfs:`` with https."""
        scheme, _, address = self._options.url.partition("://")
        return f"{'swebhdfs' if scheme == 'https' else 'webhdfs'}://{address}{self._root}"

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        path = self._path(key)
        if len(data) > OBJECT_BYTES_MAX:
            raise InvalidArgumentError(
                f"{key}: {len(data)} bytes are more than {OBJECT_BYTES_MAX} bytes"
            )
        if not self._is_swept:
            self._is_swept = True
            await self._calls.write(
                lambda: _with_typed_errors(self._sweep_leftovers, self._uploading, True)
            )
        return await self._calls.write(lambda: self._put(path, data))

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        path = self._path(key)

        def call() -> bytes:
            size = int(self._client.status(path)["length"])
            expected_bytes = size - offset if length is None else min(length, size - offset)
            if expected_bytes <= 0:
                return b""
            with self._client.read(path, offset=offset, length=expected_bytes) as reader:
                data: bytes = reader.read()
            if len(data) != expected_bytes:
                raise UnavailableError(
                    f"HDFS, {path}: received {len(data)} of {expected_bytes} bytes"
                )
            return data

        return await self._calls.read(lambda: _with_typed_errors(call, path))

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore. Returns no SHA-256, because HDFS keeps only checksums of another kind."""
        path = self._path(key)

        def call() -> ObjectStat:
            found = self._client.status(path)
            if found["type"] != "FILE":
                raise NoSuchObjectError(f"{key} is a directory, not an object")
            return ObjectStat(int(found["length"]), None)

        return await self._calls.read(lambda: _with_typed_errors(call, path))

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

        return await self._calls.read(lambda: _with_typed_errors(call, top))

    async def delete(self, key: str) -> None:
        """See ColdStore. Directories that become empty remain."""
        path = self._path(key)
        await self._calls.write(
            lambda: _with_typed_errors(lambda: self._client.delete(path), path, True)
        )

    async def close(self) -> None:
        """See ColdStore."""
        await self._calls.close()

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _sweep_leftovers(self) -> None:
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
            return _with_typed_errors(call, path, True)
        finally:
            with contextlib.suppress(*_FAILURES):
                self._client.delete(temporary)


def _client(options: HdfsOptions) -> Any:  # noqa: ANN401 - the package has no types
    session = requests.Session()
    if options.ca is not None:
        check_authorities(options.ca)
        session.verify = options.ca
        session.trust_env = False  # REQUESTS_CA_BUNDLE would replace it
    timeout_s = max(1.0, options.timeout_ms / 1000)
    if options.kerberos:
        session.auth = TicketAuth()
        return hdfs.Client(options.url, session=session, timeout=timeout_s)
    return hdfs.InsecureClient(options.url, user=options.user, session=session, timeout=timeout_s)


def _with_typed_errors(call: Callable[[], T], path: str, writes: bool = False) -> T:
    try:
        return call()
    except hdfs.HdfsError as error:
        raise _translate_error(error, path) from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        kind = UnknownOutcomeError if writes else UnavailableError
        raise kind(f"HDFS, {path}: {error}") from error


def _translate_error(error: hdfs.HdfsError, path: str) -> RhumblineError:
    text = f"{error.exception or ''} {error.message}"
    short = f"HDFS, {path}: {error.message.splitlines()[0] if error.message else error}"
    for words, kind in (
        (("FileNotFoundException", "does not exist"), NoSuchObjectError),
        (_REFUSED, UnauthorizedError),
        (("DSQuotaExceeded", "NSQuotaExceeded", "could only be written to 0"), DiskFullError),
    ):
        if any(word in text for word in words):
            return kind(short)
    return UnavailableError(short)
