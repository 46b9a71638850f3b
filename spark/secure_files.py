"""The files that protect the connections of a query: certificates, and the application's token.

Options hold names of files only: Spark shows options in plans, in its UI, in event logs and in
error messages, so a secret must never be an option.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.protocol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class SecureFiles:
    """Names of files, on the driver and on the executors. See ``take_secure_files``."""

    ca: str = ""
    """``tlsCa``: certificates of the authorities that the query trusts; with it, TLS is used."""
    certificate: str = ""
    """``tlsCertificate``: certificate of the application."""
    key: str = ""
    """``tlsKey``: its private key."""
    server_name: str = ""
    """``tlsServerName``: name that the certificates of all servers have."""
    token: str = ""
    """``tokenFile``: file with the token for proxies, instead of a certificate."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments ``tls`` and ``token`` of ``connect``, as the files are now.

        Raises ConfigurationError if the file of the token cannot be read.
        """
        from ..security.settings import TlsSettings  # archives are read without it

        found: dict[str, Any] = {}
        if self.ca:
            found["tls"] = TlsSettings(
                ca=self.ca,
                certificate=self.certificate,
                key=self.key,
                server_name=self.server_name,
            )
        if self.token:
            try:
                found["token"] = Path(self.token).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"tokenFile {self.token}: {error}") from None
        return found


def take_secure_files(take: Callable[[str], str | None], faults: list[str]) -> SecureFiles:
    """Take the options of the files; add what is wrong with them to ``faults``."""
    files = SecureFiles(
        ca=take("tlsCa") or "",
        certificate=take("tlsCertificate") or "",
        key=take("tlsKey") or "",
        server_name=take("tlsServerName") or "",
        token=take("tokenFile") or "",
    )
    if bool(files.certificate) is not bool(files.key):
        faults.append("tlsCertificate, tlsKey: set both of them or none")
    if (files.certificate or files.server_name) and not files.ca:
        faults.append("tlsCa: set it to the file of the authorities; without it there is no TLS")
    if take("token") is not None:
        faults.append("token: Spark shows options to everyone; set tokenFile to a file with it")
    return files
