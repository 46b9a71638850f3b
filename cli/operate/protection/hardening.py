"""The checklist of the guide "Harden a cluster", for ``doctor``. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ....client.settings import Settings
from ....security.quotas import ANY, QuotaTable, SubjectKind
from ....security.settings import GRANTED, INTERNAL
from ....tls.protection import is_loopback
from ..server_checks import OK, WARNING, Finding

SUBJECTS = (
    "transport",
    "bookie clients",
    "audit log",
    "quotas",
    "idle connections",
    "operator port",
    "status address",
)
"""The items of the checklist; the check of each is ``hardening: ITEM``."""


def check_hardening(
    settings: Settings,
    quotas: QuotaTable,
    proxies: Sequence[Mapping[str, Any]] = (),
    hosts: Collection[str] = (),
) -> Iterator[Finding]:
    """Judge the settings that this command has, which should be those of the servers.

    ``proxies`` and ``hosts`` are what the cluster has registered: its proxies, and the hosts of all
    servers. Without TLS there is nothing to judge: ``check_security`` says who reaches the ports
    then.
    """
    if not settings.tls.serves and not settings.tls.ca:
        return
    judged = _judged(settings, quotas, proxies, hosts)
    for subject, (fault, good) in zip(SUBJECTS, judged, strict=True):
        yield Finding(f"hardening: {subject}", WARNING if fault else OK, fault or good)


def _judged(
    settings: Settings,
    quotas: QuotaTable,
    proxies: Sequence[Mapping[str, Any]],
    hosts: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Yield two sentences for each item: its fault, or "" without one, and what holds then."""
    is_open = not settings.tls.required or settings.security.insecure_network
    yield (
        "connections without TLS are accepted: set tls.required = true and "
        "security.insecure_network = false"
        if is_open
        else "",
        "connections without TLS are refused",
    )
    yield (
        "every holder of a certificate reaches all ledgers: set security.bookie_clients = "
        '"internal" and let applications use proxies, or to "granted"'
        if settings.security.bookie_clients not in (GRANTED, INTERNAL)
        else "",
        "bookies serve the parts of the cluster, and applications only as grants allow",
    )
    yield (
        "" if settings.audit.file else "there is none: set audit.file",
        "administrative acts and refusals are recorded",
    )
    has_default = quotas.find(SubjectKind.PRINCIPAL, ANY) is not None
    yield (
        "" if has_default else "principals are not limited: `rhumbline quota set 'principal:*'`",
        "each principal has a quota",
    )
    yield (
        "" if settings.bookie.connection_idle_ms else "they stay open: bookie.connection_idle_ms",
        "bookies close idle connections",
    )
    serve = settings.serve
    is_local = all(map(is_loopback, (serve.host, *hosts)))
    shared = [str(proxy["address"]) for proxy in proxies if not proxy["operator_address"]]
    yield _apart(
        not shared if proxies else settings.proxy.operator_port > 0,
        is_local,
        f"it is that of clients{' at ' if shared else ''}{', '.join(shared)}: set "
        "proxy.operator_port",
        "proxies refuse administrative calls at the port for clients",
    )
    yield _apart(
        serve.status_host not in ("", serve.host),
        is_local,
        f"it is that of clients, {serve.host}: set serve.status_host",
        "clients do not share the address of states and metrics",
    )


def _apart(is_apart: bool, is_local: bool, fault: str, good: str) -> tuple[str, str]:
    """Return the two sentences about a separate port, which servers on loopback do not need."""
    if is_apart:
        return "", good
    return ("", "not needed: only this machine reaches the servers") if is_local else (fault, good)
