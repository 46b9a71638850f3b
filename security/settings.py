"""Settings of the encryption of connections, and of the clients that servers accept."""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from ..core.protocol.errors import ConfigurationError, InvalidArgumentError
from ..core.runtime.settings import check_settings, setting
from .principal import Role

GRANTED = "granted"
INTERNAL = "internal"
"""Values of ``bookie_clients``."""

_DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of everything that a process listens on and connects to.

    With a certificate, servers use TLS; with authorities, clients do. Files are read again when
    they change. Raises ConfigurationError.
    """

    certificate: str = setting(
        "",
        "PEM file with the certificate of this process, followed by intermediate ones.",
        needs="key",
    )
    key: str = setting("", "PEM file with the private key of the certificate.", needs="certificate")
    ca: str = setting(
        "", "PEM file with the certificates of the authorities that this process trusts."
    )
    required: bool = setting(
        True,
        "Refuse connections without TLS. false: bookies and status servers accept both, while a "
        "cluster changes to TLS.",
    )
    connect: bool = setting(
        True,
        "Connect to bookies, proxies and status servers with TLS, if ca is set. false: without, "
        "while a cluster changes to TLS.",
    )
    server_name: str = setting(
        "",
        "Name that the certificates of all servers have. Empty: the certificate of a server has "
        "the host name or address under which clients connect.",
    )
    proxy_client_certificates: bool = setting(
        True,
        "Proxies require a certificate of each client. false: clients of proxies identify "
        "themselves with a token.",
    )
    handshake_ms_max: int = setting(
        10_000,
        "Time in which a new connection must complete its TLS handshake, or be closed.",
        low=1,
        high=600_000,
    )
    expiry_warning_ms: int = setting(
        14 * _DAY_MS,
        "Time before the end of a certificate from which `doctor` and the log warn.",
        low=0,
    )

    def __post_init__(self) -> None:
        check_settings(self, "tls")

    @property
    def serves(self) -> bool:
        """True if servers use TLS."""
        return bool(self.certificate)

    @property
    def connects(self) -> bool:
        """True if clients use TLS."""
        return bool(self.ca) and self.connect


def _check_roles(pairs: tuple[tuple[str, str], ...]) -> None:
    for name, roles in pairs:
        for role in roles.split(","):
            if role.strip() not in set(Role):
                known = ", ".join(Role)
                raise InvalidArgumentError(f"{name}: {role.strip()!r} is not one of {known}")


_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


def _check_jwks(source: str) -> None:
    scheme, _, rest = source.partition("://")
    is_local = scheme == "http" and urlsplit(f"//{rest}").hostname in _LOCAL_HOSTS
    if rest and scheme != "https" and not is_local:
        raise InvalidArgumentError(f"{source!r} is not a file or an https:// address")


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The clients that the servers of this process accept. Raises ConfigurationError."""

    insecure_network: bool = setting(
        False,
        "Allow a server to listen without TLS on an address that other machines reach. Everyone "
        "who reaches it can then read and change all data.",
    )

    bookie_clients: Literal["all", "granted", "internal"] = setting(
        "all",
        "Whom bookies with TLS serve. all: every holder of a certificate. internal: only those "
        "with a role of the cluster itself (bookie, proxy, repair, admin). granted: those, and "
        "applications for the ledgers of streams that grants allow them; needs tls.required.",
    )
    access_control: bool = setting(
        False,
        "Proxies serve only calls that a grant allows (`rhumbline access`). Needs TLS or tokens, "
        "so that callers are known.",
    )
    grants_refresh_ms: int = setting(
        1_000,
        "Interval at which proxies, and bookies with bookie_clients = granted, read the grants "
        "again, in addition to being told of changes.",
        low=50,
        high=60_000,
    )
    grants_stale_ms_max: int = setting(
        60_000,
        "Time for which a server that cannot read the grants decides by those that it knows. "
        "Afterwards a proxy refuses every call, except those of administrators, and a bookie every "
        "request of an application.",
        low=1_000,
        high=24 * 3_600_000,
    )
    roles: tuple[tuple[str, str], ...] = setting(
        (),
        'Roles by name of principal, e.g. "spiffe://acme/client/app" = "admin". They replace the '
        "roles of its certificate.",
        check=_check_roles,
    )
    ledger_secrets: str = setting(
        "",
        "File with a secret for each namespace, from which the passwords of its new ledgers "
        "follow. "
        "Every process that writes the namespace needs it. Read again when it changes.",
    )
    token_file: str = setting(
        "", "File with the token that this process presents to proxies. Read again when it changes."
    )
    static_tokens: str = setting(
        "",
        "File with the hashes of the tokens that proxies accept; `rhumbline security token` adds "
        "one.",
    )
    jwks: str = setting(
        "",
        "File or https:// address of the public keys (JWKS) that sign the tokens (JWT) that "
        "proxies accept.",
        check=_check_jwks,
    )
    jwks_stale_ms_max: int = setting(
        3_600_000,
        "Time for which JWTs are verified with the keys that are known, while the file or address "
        "of jwks cannot be read. Afterwards proxies refuse every JWT. A shorter time makes the end "
        "of a withdrawn key certain sooner, a longer one survives longer outages.",
        low=1_000,
        high=7 * _DAY_MS,
    )
    token_issuer: str = setting("", "Issuer (`iss`) that a JWT must have. Empty: any.")
    token_audience: str = setting(
        "", "Audience (`aud`) that a JWT must have. Required with jwks.", needs="jwks"
    )
    token_leeway_ms: int = setting(
        30_000,
        "Difference of clocks that is tolerated when the times of a JWT are checked.",
        low=0,
        high=300_000,
    )

    def __post_init__(self) -> None:
        check_settings(self, "security")
        if self.jwks and not self.token_audience:
            raise ConfigurationError(
                "security: token_audience is not set: tokens for other services would be accepted"
            )
