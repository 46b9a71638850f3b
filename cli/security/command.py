"""``rhumbline security``: make an authority, certificates and tokens, and show the own identity."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from ...core.protocol.errors import ConfigurationError
from ...security.certificate_names import principal_of_certificate
from ...security.principal import Role
from ...security.token_claims import static_token_line
from ...tls.authority import SERVER_NAME, Authority, Issued
from ...tls.certificate import decode_pem
from ..options import CommandSession, session_options
from ..output import TABLE, output_option, print_done, print_message, print_record
from ..output_schema import done, integer, listing, prints, record, text
from .forward_audit import forward_audit

_TOKEN_BYTES = 32
_FIRST = (
    ("server", (Role.BOOKIE, Role.PROXY, Role.REPAIR)),
    ("admin", (Role.ADMIN,)),
    ("client", (Role.CLIENT,)),
)
_ISSUED = record(
    {
        "principal": text("Name of the principal."),
        "roles": text("Its roles, separated by commas."),
        "certificate": text("File of the certificate."),
        "key": text("File of the private key."),
        "not_after": text("Expiry of the certificate, in UTC."),
    }
)
_hosts_option = click.option(
    "--host", "hosts", multiple=True,
    help="Host name or address of a server that uses the certificate. Repeatable.",
)  # fmt: skip
_roles_option = click.option(
    "--role", "roles", multiple=True, type=click.Choice([role.value for role in Role]),
    default=("client",), show_default=True, help="Role of the principal. Repeatable.",
)  # fmt: skip
_days_option = click.option(
    "--days", type=click.IntRange(1, 3650), default=90, show_default=True,
    help="Validity of a certificate.",
)  # fmt: skip


@click.group()
def security() -> None:
    """Make certificates and tokens, show the certificate of this process, forward the audit log."""


security.add_command(forward_audit)


@security.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--trust-domain", default="rhumbline", show_default=True,
              help="Name of the cluster in its principals.")  # fmt: skip
@_hosts_option
@_days_option
@click.option("--ca-days", type=click.IntRange(1, 36500), default=3650, show_default=True,
              help="Validity of the authority.")  # fmt: skip
@prints(
    done(
        {
            "directory": text("Directory of the authority."),
            "ca": text("Certificate of the authority."),
            "server_name": text("A name that the certificates of all servers have."),
            "issued": listing(_ISSUED, "The certificates."),
        }
    )
)
@output_option
def init(
    directory: Path,
    trust_domain: str,
    hosts: Sequence[str],
    days: int,
    ca_days: int,
    output: str,
) -> None:
    """Make an authority in DIRECTORY, and certificates for servers, administrators and clients.

    An authority that exists is kept, and its certificates are replaced. Keep ca.key off the
    servers: anyone who has it can impersonate any principal.
    """
    authority = Authority(directory)
    authority.create(trust_domain=trust_domain, days=ca_days)
    issued = [
        authority.issue(name, roles, hosts=("localhost", "127.0.0.1", *hosts), days=days)
        for name, roles in _FIRST
    ]
    _report(authority, issued, output)


@security.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("name")
@_roles_option
@_hosts_option
@_days_option
@prints(
    done(
        {
            "directory": text("Directory of the authority."),
            "ca": text("Certificate of the authority."),
            "server_name": text("A name that the certificates of all servers have."),
            "issued": listing(_ISSUED, "The certificates."),
        }
    )
)
@output_option
def issue(
    directory: Path,
    name: str,
    roles: Sequence[str],
    hosts: Sequence[str],
    days: int,
    output: str,
) -> None:
    """Issue NAME.pem and NAME.key from the authority in DIRECTORY, replacing earlier ones.

    Processes that use the files load them within a second; open connections continue.
    """
    authority = Authority(directory)
    issued = authority.issue(name, [Role(role) for role in roles], hosts=hosts, days=days)
    _report(authority, [issued], output)


def _report(authority: Authority, issued: Sequence[Issued], output: str) -> None:
    rows = [
        {
            "principal": one.principal,
            "roles": ",".join(one.roles),
            "certificate": str(one.certificate),
            "key": str(one.key),
            "not_after": f"{one.not_after:%Y-%m-%d %H:%M:%S}",
        }
        for one in issued
    ]
    ca = authority.certificate_file
    document = {
        "directory": str(authority.directory),
        "ca": str(ca),
        "server_name": SERVER_NAME,
        "issued": rows,
    }
    if output != TABLE:
        print_done(document, output, f"{len(rows)} certificates issued")
        return
    for row in rows:
        print_message(
            f"{row['certificate']}: {row['principal']}, roles {row['roles']}, "
            f"until {row['not_after']} UTC"
        )
    first = issued[0]
    print_message("Settings of a process that uses the first one:")
    click.echo(
        f'[tls]\ncertificate = "{first.certificate.resolve()}"\nkey = "{first.key.resolve()}"\n'
        f'ca = "{ca.resolve()}"\nserver_name = "{SERVER_NAME}"'
    )


@security.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("name")
@_roles_option
@prints(
    done(
        {
            "principal": text("Name of the principal."),
            "roles": text("Its roles, separated by commas."),
            "file": text("File with the hashes of tokens."),
            "token": text("The token, which is stored nowhere."),
        }
    )
)
@output_option
def token(file: Path, name: str, roles: Sequence[str], output: str) -> None:
    """Make a token for a principal, print it, and add its hash to FILE (security.static_tokens).

    To revoke a token, remove its line.
    """
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    line = static_token_line(name, made, [Role(role) for role in roles])
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
    document = {"principal": name, "roles": ",".join(roles), "file": str(file), "token": made}
    print_done(document, output, f"added a token of {name} to {file}")
    if output == TABLE:
        click.echo(made)


@security.command()
@prints(
    record(
        {
            "principal": text("Name of the principal."),
            "roles": text("Its roles, separated by commas."),
            "certificate": text("File of the certificate."),
            "not_after": text("Expiry of the certificate, in UTC."),
            "days_left": integer("Days until then; 0 if it has expired."),
        }
    )
)
@session_options
def show(session: CommandSession) -> None:
    """Show the identity of this process: the certificate in its settings."""
    file = session.settings.tls.certificate
    if not file or session.protection.credentials is None:
        raise ConfigurationError("tls.certificate is not set: this process has no certificate")
    found = decode_pem(session.protection.credentials.pem_files().certificate)
    roles = dict(session.settings.security.roles)
    principal = principal_of_certificate(found.names, roles)
    left = found.not_after - datetime.now(UTC)
    print_record(
        {
            "principal": str(principal),
            "roles": ",".join(sorted(principal.roles)),
            "certificate": file,
            "not_after": f"{found.not_after:%Y-%m-%d %H:%M:%S}",
            "days_left": max(0, left.days),
        },
        session.output,
    )
