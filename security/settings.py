"""Settings of the encryption of connections, and of who may connect."""

from dataclasses import dataclass

from ..core.runtime.settings import check_settings, setting

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


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Who may connect to the servers of this process. Raises ConfigurationError."""

    insecure_network: bool = setting(
        False,
        "Allow a server to listen without TLS on an address that other machines reach. Everyone "
        "who reaches it can then read and change all data.",
    )

    def __post_init__(self) -> None:
        check_settings(self, "security")
