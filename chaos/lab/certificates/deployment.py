"""The certificates that the processes of a cluster use, and the steps that replace them.

The steps are those of the guide (docs/how-to/secure-a-cluster.md, "Renew certificates").
"""

import shutil
from pathlib import Path

from ....security.principal import Role
from ....security.settings import TlsSettings
from ....tls.authority import CA_CERTIFICATE, SERVER_NAME, Authority

HOST = "127.0.0.1"
SERVER, CLIENT = "server", "client"
_DAYS = 30
_ROLES = {SERVER: (Role.BOOKIE, Role.PROXY, Role.REPAIR), CLIENT: (Role.CLIENT,)}


class Deployment:
    """The folder from which all processes load their certificates, and the authorities' folders."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "tls"
        self._old = Authority(folder / "authority")
        self._new = Authority(folder / "next-authority")
        self.files.mkdir(parents=True)
        self._old.create(trust_domain="lab", days=_DAYS)
        self._trust(self._old)
        self._install(self._old)

    def settings(self, name: str) -> TlsSettings:
        """Return the settings of a process with the certificate ``name``."""
        return TlsSettings(
            certificate=str(self.certificate(name)),
            key=str(self.files / f"{name}.key"),
            ca=str(self.files / CA_CERTIFICATE),
            server_name=SERVER_NAME,
        )

    def certificate(self, name: str) -> Path:
        """Return the file of a certificate."""
        return self.files / f"{name}.pem"

    def renew(self) -> None:
        """Replace all certificates by new ones of the same authority."""
        self._install(self._old)

    def trust_both(self) -> None:
        """Make a new authority, and trust its certificates and those of the old one."""
        self._new.create(trust_domain="lab", days=_DAYS)
        self._trust(self._old, self._new)

    def change_authority(self) -> None:
        """Replace all certificates by those of the new authority."""
        self._install(self._new)

    def distrust_old(self) -> None:
        """Trust the certificates of the new authority only."""
        self._trust(self._new)

    def settings_of_old_authority(self) -> TlsSettings:
        """Return the settings of a client whose certificate the old authority has signed."""
        issued = self._old.issue("late", _ROLES[CLIENT], days=_DAYS)
        return TlsSettings(
            certificate=str(issued.certificate),
            key=str(issued.key),
            ca=str(self.files / CA_CERTIFICATE),
            server_name=SERVER_NAME,
        )

    def _trust(self, *authorities: Authority) -> None:
        part = self.files / ".ca.part"
        part.write_bytes(b"".join(one.certificate_file.read_bytes() for one in authorities))
        part.replace(self.files / CA_CERTIFICATE)

    def _install(self, authority: Authority) -> None:
        for name, roles in _ROLES.items():
            issued = authority.issue(name, roles, hosts=[HOST], days=_DAYS)
            for file in (issued.key, issued.certificate):
                part = self.files / f".{file.name}.part"
                shutil.copy(file, part)
                part.replace(self.files / file.name)
