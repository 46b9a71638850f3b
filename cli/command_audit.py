"""Audit events of commands that change the cluster (rule SEC-20)."""

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import click

from ..core.protocol.errors import RhumblineError
from ..security.audit import NO_AUDIT, AuditEvent, AuditResult, result_of
from ..security.certificate_names import principal_of_certificate
from ..tls.certificate import decode_pem
from ..tls.protection import Protection
from .output_schema import schema_of

_NO_ACTS = frozenset({"apply", "spark verify", "topic append"})
"""Commands that say what was done, but read or append only, or record each of their acts."""
_SERVERS = frozenset(
    {"archive serve", "bookie run", "console", "read-proxy", "repair run", "write-proxy"}
)
_CHANGING = frozenset(
    {
        "archive restore",
        "archive run",
        "namespace set-policy",
        "node adopt",
        "repair fix",
        "stream set-policy",
    }
)
"""Commands that print what they found although they change the cluster."""


def is_act(path: str, command: click.Command) -> bool:
    """Return whether a command changes the cluster: those do whose output says what was done."""
    schema = schema_of(command.callback) or {}
    reports_change = "message" in schema.get("properties", {})
    return path in _CHANGING or (reports_change and path not in _NO_ACTS | _SERVERS)


def source_of_process() -> str:
    """Return the name of this process in audit lines: its command, machine and number."""
    context = click.get_current_context(silent=True)
    path = "" if context is None else _path_of(context)
    return f"{path or 'rhumbline'}@{socket.gethostname()}:{os.getpid()}"


@contextmanager
def audited_command(protection: Protection, namespace: str) -> Iterator[None]:
    """Record the current command when it ends, if it is an act."""
    context = click.get_current_context(silent=True)
    if context is None or protection.audit is NO_AUDIT:
        yield
        return
    path = _path_of(context)
    if not is_act(path, context.command):
        yield
        return
    who, host, what = _principal(protection), socket.gethostname(), _resource(context, namespace)
    result, code = AuditResult.UNKNOWN, "interrupted"
    try:
        yield
        result, code = AuditResult.DONE, ""
    except RhumblineError as error:
        result, code = result_of(error), error.code
        raise
    except click.ClickException:
        result, code = AuditResult.FAILED, "usage"
        raise
    finally:
        protection.audit.record(AuditEvent(path, result, who, host, what, code))


def record_act(protection: Protection, what: str, error: RhumblineError | None = None) -> None:
    """Record one of several acts of the current command; ``what`` names it and its resource."""
    context = click.get_current_context(silent=True)
    if context is None or protection.audit is NO_AUDIT:
        return
    path, who, host = _path_of(context), _principal(protection), socket.gethostname()
    result = AuditResult.DONE if error is None else result_of(error)
    code = "" if error is None else error.code
    protection.audit.record(AuditEvent(path, result, who, host, what, code))


def _path_of(context: click.Context) -> str:
    return context.command_path.partition(" ")[2]


def _principal(protection: Protection) -> str:
    """Return the principal of the own certificate, else the user of the operating system."""
    serving = protection.serving
    if serving is not None:
        return str(principal_of_certificate(decode_pem(serving.pem_files().certificate).names))
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name
        return f"user:{os.getuid()}"


def _resource(context: click.Context, namespace: str) -> str:
    """Return the namespace and the arguments of the command; options are left out."""
    words = [f"namespace:{namespace}"]
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument) and parameter.name is not None:
            value = context.params.get(parameter.name)
            values = value if isinstance(value, tuple) else () if value is None else (value,)
            words += [_without_credentials(str(one)) for one in values]
    return " ".join(words)


def _without_credentials(text: str) -> str:
    """Return the text, of a URI only scheme, host and path."""
    if "://" not in text:
        return text
    found = urlsplit(text)
    return f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}"
