"""Checks of what listens where, protected by what, and until when, for ``doctor``."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from ...backends.uri import StoreUri, parse_uri, secret_files_of
from ...client.settings import Settings
from ...client.units import show_count
from ...core.ledger.connection.bookie_link import address_for
from ...core.protocol.bookie_id import Region
from ...core.protocol.errors import InvalidArgumentError, RhumblineError
from ...security.certificate_names import principal_of_certificate
from ...security.secret_files import mode_of_readable
from ...security.settings import TlsSettings
from ...server.server_directory import ServerRecord
from ...tls.certificate import Certificate, decode_der, decode_pem
from ...tls.credentials import TlsCredentials
from ...tls.protection import Protection, is_loopback
from ..overview.bookies import BookieView
from ..overview.status_documents import parse_address
from .server_checks import FAULT, OK, WARNING, Finding

_CONNECT_SECONDS_MAX = 5
_SHOWN = 3
_AT_ONCE = 32


def listening(
    bookies: Sequence[BookieView],
    proxies: Sequence[Mapping[str, Any]],
    servers: Sequence[ServerRecord],
    region: Region | None,
) -> dict[tuple[str, int], str]:
    """Return what listens at which address, as far as the cluster has registered it."""
    found: dict[tuple[str, int], str] = {}
    for view in bookies:
        if view.registration is not None:
            with suppress(RhumblineError):  # reported with the bookie
                address = address_for(view.registration, region)
                found[address.host, address.port] = f"bookie {view.bookie}"
            if view.status_address is not None:
                found[view.status_address] = f"status of bookie {view.bookie}"
    for row in proxies:
        _add(found, str(row["address"]), f"{row['roles']} proxy")
        _add(found, str(row["operator_address"] or ""), f"operators of {row['roles']} proxy")
    for server in servers:
        _add(found, server.status_address, f"status of {server.kind}")
    return found


def _add(found: dict[tuple[str, int], str], text: str, name: str) -> None:
    address = parse_address(text)
    if address is not None:
        found[address] = name


def check_secret_files(settings: Settings) -> Iterator[Finding]:
    """Check who reads the files with secrets that the settings name, if they name any."""
    files = [settings.tls.key, settings.security.token_file, settings.security.ledger_secrets]
    for uri in _stores_of(settings):
        files += secret_files_of(uri)
    named = list(dict.fromkeys(filter(None, files)))
    if not named:
        return
    faults = []
    for file in named:
        try:
            mode = mode_of_readable(file)
        except OSError as error:
            faults.append(f"{file} cannot be examined: {error.strerror}")
            continue
        if mode is not None:
            faults.append(f"other users can read {file} (mode {mode}): chmod 600")
    count = show_count(len(named), "file", "files")
    good = f"only those who need them read {count}"
    yield Finding("secret files", WARNING if faults else OK, "; ".join(faults) or good)


def check_store_passwords(settings: Settings) -> Iterator[Finding]:
    """Warn about each metadata store to which a password is sent without TLS."""
    for uri in _stores_of(settings):
        has_tls = any(name.startswith("tls") for name in uri.options)
        if "auth_file" in uri.options and not has_tls and not _is_local(uri):
            store = f"{uri.scheme}://{uri.authority}"
            detail = f"the password of {store} is sent without TLS: set tls_ca"
            yield Finding("store password", WARNING, detail)


def _is_local(uri: StoreUri) -> bool:
    return all(is_loopback(host.name) for host in uri.hosts(default_port=1))


def _stores_of(settings: Settings) -> list[StoreUri]:
    named = [settings.cluster.metadata, *(uri for _, uri in settings.cluster.regional_metadata)]
    return [parse_uri(uri) for uri in named if uri]


async def check_security(
    protection: Protection, addresses: Mapping[tuple[str, int], str]
) -> list[Finding]:
    """Check the own certificate and that of each address; without TLS, who reaches them."""
    credentials = protection.connecting
    if credentials is None:
        return [_without_tls(addresses)]
    own = protection.serving
    found = []
    if own is not None:
        certificate = decode_pem(own.pem_files().certificate)
        found.append(_judge("own certificate", certificate, own.settings))
    slots = asyncio.Semaphore(_AT_ONCE)

    async def check(address: tuple[str, int], name: str) -> Finding:
        async with slots:
            return await _check(f"tls {name}", *address, credentials)

    return [*found, *await asyncio.gather(*(check(*item) for item in addresses.items()))]


def _without_tls(addresses: Mapping[tuple[str, int], str]) -> Finding:
    reachable = [f"{name} at {host}:{port}" for (host, port), name in addresses.items()
                 if not is_loopback(host)]  # fmt: skip
    if not reachable:
        return Finding("security", OK, "no TLS, and no address that other machines reach")
    shown = ", ".join(reachable[:_SHOWN])
    more = f" and {len(reachable) - _SHOWN} more" if len(reachable) > _SHOWN else ""
    count = show_count(len(reachable), "address", "addresses")
    detail = f"this command uses no TLS; other machines reach {count}: {shown}{more}"
    return Finding("security", WARNING, f"{detail}; see [tls] in the settings")


async def _check(subject: str, host: str, port: int, credentials: TlsCredentials) -> Finding:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS_MAX):
            _, writer = await asyncio.open_connection(
                host,
                port,
                ssl=credentials.client_context(),
                server_hostname=credentials.server_name(host),
            )
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        certificate = decode_der(der)
    except ssl.SSLCertVerificationError as error:
        return Finding(subject, FAULT, f"{host}:{port}: {error.verify_message}")
    except ssl.SSLError as error:
        return Finding(subject, FAULT, f"{host}:{port} does not use TLS: {error.reason}")
    except (OSError, TimeoutError, InvalidArgumentError) as error:
        reason = str(error) or type(error).__name__
        return Finding(subject, FAULT, f"{host}:{port} has no TLS handshake: {reason}")
    return _judge(subject, certificate, credentials.settings, f"{host}:{port}, ")


def _judge(subject: str, found: Certificate, settings: TlsSettings, where: str = "") -> Finding:
    left = found.not_after - datetime.now(UTC)
    verdict = OK
    if left <= timedelta(milliseconds=settings.expiry_warning_ms):
        verdict = WARNING if left > timedelta() else FAULT
    principal = principal_of_certificate(found.names)
    verb = "expired" if left <= timedelta() else "expires"
    days = f"in {show_count(left.days, 'day')}" if left > timedelta() else ""
    detail = f"{where}{principal}; certificate {verb} {found.not_after:%Y-%m-%d %H:%M} UTC {days}"
    return Finding(subject, verdict, detail.strip())
