"""The certificate, key and authorities of a process: read from disk, again whenever they change.

A connection uses what is on the disk when it begins. Files that cannot be read or do not match,
e.g. while they are being replaced, leave the last good ones in use.
"""

import os
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..core.protocol.errors import ConfigurationError, InvalidArgumentError
from ..core.runtime.event_log import EventLog
from ..security.secret_files import warn_if_readable
from ..security.settings import TlsSettings
from .certificate import decode_pem

_LOG = EventLog(__name__)

_CHECK_S = 1.0
"""Shortest interval between two looks at the files."""

_TLS_1_2_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers for clients without TLS 1.3: with forward secrecy, and none in CBC mode."""

_Stamp = tuple[tuple[int, int, int], ...]


class PemFiles(NamedTuple):
    """The contents of the files; empty if not set."""

    certificate: bytes
    key: bytes
    ca: bytes


class _Loaded(NamedTuple):
    """The contents of the files at one time, and the contexts made of them."""

    pem: PemFiles
    server: ssl.SSLContext | None
    server_optional: ssl.SSLContext | None
    client: ssl.SSLContext | None


class TlsCredentials:
    """The credentials of one process. Safe to use in several threads."""

    def __init__(
        self, settings: TlsSettings, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ConfigurationError if the files cannot be used."""
        self.settings = settings
        self.version = 1
        """Counts how often the files were loaded."""
        self._now_s = now_s
        self._lock = threading.Lock()
        self._stamp = self._read_stamp()
        self._loaded = self._load()
        self._checked_at = now_s()
        self._has_failed = False

    def server_context(self, *, needs_certificate: bool = True) -> ssl.SSLContext:
        """Return the context for an accepted connection; its clients are asked for a certificate.

        Without ``needs_certificate`` a client may have none.
        """
        loaded = self._current()
        found = loaded.server if needs_certificate else loaded.server_optional
        assert found is not None, "no certificate is set"
        return found

    def client_context(self) -> ssl.SSLContext:
        """Return the context for a connection to a server."""
        found = self._current().client
        assert found is not None, "no authorities are set"
        return found

    def pem_files(self) -> PemFiles:
        """Return the contents of the files."""
        return self._current().pem

    def expires_ms(self) -> int | None:
        """Return when the certificate expires, in ms since the Unix epoch; None without one."""
        pem = self._current().pem.certificate
        return decode_pem(pem).not_after_ms if pem else None

    def server_name(self, host: str) -> str:
        """Return the name that the certificate of the server at ``host`` must have."""
        return self.settings.server_name or host

    def _current(self) -> _Loaded:
        with self._lock:
            now = self._now_s()
            if now - self._checked_at >= _CHECK_S:
                self._checked_at = now
                self._refresh()
            return self._loaded

    def _refresh(self) -> None:
        try:
            stamp = self._read_stamp()
            if stamp == self._stamp:
                return
            self._loaded = self._load()
        except ConfigurationError as error:
            if not self._has_failed:
                _LOG.warning("certificate not loaded", file=self._main_file, error=error)
            self._has_failed = True
            return
        self._stamp = stamp
        self._has_failed = False
        self.version += 1
        _LOG.info("certificate loaded", file=self._main_file)

    @property
    def _main_file(self) -> str:
        return self.settings.certificate or self.settings.ca

    @property
    def _files(self) -> list[str]:
        settings = self.settings
        return [name for name in (settings.certificate, settings.key, settings.ca) if name]

    def _read_stamp(self) -> _Stamp:
        try:
            found = [os.stat(name) for name in self._files]
        except OSError as error:
            raise ConfigurationError(f"tls: {error.filename}: {error.strerror}") from error
        return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)

    def _load(self) -> _Loaded:
        settings = self.settings
        pem = PemFiles(_read(settings.certificate), _read(settings.key), _read(settings.ca))
        try:
            if settings.serves:
                decode_pem(pem.certificate)  # before a context is made of half a file
                warn_if_readable(settings.key)
            return _Loaded(
                pem,
                _server_context(settings, ssl.CERT_REQUIRED) if settings.serves else None,
                _server_context(settings, ssl.CERT_OPTIONAL) if settings.serves else None,
                _client_context(settings) if settings.ca else None,
            )
        except (OSError, ssl.SSLError, InvalidArgumentError) as error:
            raise ConfigurationError(
                f"tls: {', '.join(self._files)} cannot be used: {error}"
            ) from error


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes() if name else b""
    except OSError as error:
        raise ConfigurationError(f"tls: {name}: {error.strerror}") from error


def _server_context(settings: TlsSettings, verify: ssl.VerifyMode) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # for clients in Java
    context.set_ciphers(_TLS_1_2_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0  # a resumed session would carry an identity that was not checked again
    context.load_cert_chain(settings.certificate, settings.key)
    if settings.ca:
        context.load_verify_locations(settings.ca)
        context.verify_mode = verify
    return context


def _client_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_verify_locations(settings.ca)
    if settings.certificate:
        context.load_cert_chain(settings.certificate, settings.key)
    return context


def credentials_of(settings: TlsSettings | None) -> TlsCredentials | None:
    """Return the credentials that the settings name; None if they name none.

    Raises ConfigurationError.
    """
    if settings is None or not (settings.serves or settings.ca):
        return None
    if settings.serves and not settings.ca:
        raise ConfigurationError("tls: ca is not set: servers verify the certificates of clients")
    return TlsCredentials(settings)
