"""A key distribution centre of MIT Kerberos, and what a program needs to be its client."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import Server

GSSAPI, REQUESTS_GSSAPI, DECORATOR = "1.12.0", "1.4.0", "5.3.1"
REALM = "RHUMBLINE.TEST"
_PASSWORD = "of-the-database"
_PACKAGES = (
    "krb5-kdc", "krb5-admin-server", "libkrb5-dev", "krb5-multidev",
    "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0",
)  # fmt: skip


class Kdc(Server):
    """A key distribution centre with a realm of its own."""

    name = "kdc"

    def __init__(self) -> None:
        home, self._settings = _home(), dict[str, str]()
        self._programs = home / "usr/sbin"
        super().__init__()
        self.configuration = self.directory / "krb5.conf"
        (libraries,) = home.glob("usr/lib/*/krb5/plugins/kdb")
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = {self.address}\n }}\n"
            f"[dbmodules]\n {REALM} = {{\n  db_library = db2\n }}\n"
            f" db_module_dir = {libraries}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principal\n"
            f"  key_stash_file = {self.directory}/stash\n"
            f"  kdc_listen = {self.address}\n  kdc_tcp_listen = {self.address}\n"
            "  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }\n"
        )
        self._settings = {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "LD_LIBRARY_PATH": _library_path(home),
        }
        self._call("kdb5_util", "create", "-s", "-r", REALM, "-P", _PASSWORD)

    def command_line(self) -> list[str]:
        """See Server."""
        settings = [f"{name}={text}" for name, text in self._settings.items()]
        return ["env", *settings, str(self._programs / "krb5kdc"), "-n"]

    def is_ready(self) -> bool:
        """See Server."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def keytab(self, *principals: str) -> Path:
        """Create principals, and return a file with their keys; the first one is the default."""
        file = self.directory / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self._call("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self._call("kadmin.local", "-q", f"ktadd -k {file} {principal}")
        return file

    def delete(self, principal: str) -> None:
        """Delete a principal, whose keys then are of no use."""
        self._call("kadmin.local", "-q", f"delprinc -force {principal}")

    def environment(self, keytab: Path | None) -> dict[str, str]:
        """Return the environment of a client with the extra ``kerberos`` and no ticket yet."""
        found = {
            **self._settings,
            "PYTHONPATH": str(_modules()),
            "KRB5CCNAME": f"FILE:{self.directory}/{os.urandom(8).hex()}",
        }
        if keytab is not None:
            found["KRB5_CLIENT_KTNAME"] = str(keytab)
        return found

    def _call(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            env={**os.environ, **self._settings},
            check=True,
            timeout=60,
            capture_output=True,
        )


def _home() -> Path:
    """Return the directory with the distribution's packages of MIT Kerberos, not installed."""
    installs.require("apt-get", "dpkg")

    def fetch(into: Path) -> None:
        lacking = installs.lacking_packages(_PACKAGES, into)
        installs.unpack_packages(sorted({*_PACKAGES, *lacking}), into)

    return installs.installed("krb5", fetch)


def _modules() -> Path:
    """Return a directory with the extra ``kerberos``, compiled with the libraries of ``_home``."""
    installs.require("gcc")
    home = _home()
    (library,) = home.glob("usr/lib/*/libgssapi_krb5.so.2")
    path = _library_path(home)

    def fetch(into: Path) -> None:
        installs.run(
            sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
            "--no-deps", "--target", str(into), f"gssapi=={GSSAPI}",
            f"requests-gssapi=={REQUESTS_GSSAPI}", f"decorator=={DECORATOR}",
            at=str(into),
            CPATH=f"{home}/usr/include:{home}/usr/include/mit-krb5",
            LIBRARY_PATH=f"{library.parent}/mit-krb5:{path}",
            GSSAPI_COMPILER_ARGS="-O1 -DHAS_GSSAPI_EXT_H",
            GSSAPI_LINKER_ARGS="-lgssapi_krb5",
            GSSAPI_MAIN_LIB=str(library),
            LD_LIBRARY_PATH=path,
        )  # fmt: skip

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return installs.installed(f"gssapi-{GSSAPI}-{REQUESTS_GSSAPI}-{python}", fetch)


def _library_path(home: Path) -> str:
    (library,) = home.glob("usr/lib/*/libgssapi_krb5.so.2")
    return f"{library.parent}:{home / 'lib' / library.parent.name}"
