"""The checklist of the guide "Harden a cluster", for ``doctor``. Pure."""

from collections.abc import Iterator

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


def check_hardening(settings: Settings, quotas: QuotaTable) -> Iterator[Finding]:
    """Judge the settings that this command has, which should be those of the servers.

    Without TLS there is nothing to judge: ``check_security`` says who reaches the ports then.
    """
    if not settings.tls.serves and not settings.tls.ca:
        return
    for subject, (fault, good) in zip(SUBJECTS, _judged(settings, quotas), strict=True):
        yield Finding(f"hardening: {subject}", WARNING if fault else OK, fault or good)


def _judged(settings: Settings, quotas: QuotaTable) -> Iterator[tuple[str, str]]:
    """Yield for each item what is wrong with it, "" if nothing is, and what holds otherwise."""
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
    is_local = is_loopback(serve.host)
    yield _apart(
        settings.proxy.operator_port > 0,
        is_local,
        "it is that of clients: set proxy.operator_port",
        "proxies refuse administrative calls at the port for clients",
    )
    yield _apart(
        serve.status_host not in ("", serve.host),
        is_local,
        f"it is that of clients, {serve.host}: set serve.status_host",
        "clients do not share the address of states and metrics",
    )


def _apart(is_apart: bool, is_local: bool, fault: str, good: str) -> tuple[str, str]:
    """Return what is wrong and what holds; an address that only this machine reaches is enough."""
    if is_apart:
        return "", good
    return ("", "not needed: only this machine reaches the servers") if is_local else (fault, good)
