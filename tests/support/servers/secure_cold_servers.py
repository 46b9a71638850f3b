"""Real servers of cold stores with https."""

import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from rhumbline.chaos.lab.ports import free_port
from rhumbline.tests.support.servers.certificates import Certificates, certificates
from rhumbline.tests.support.servers.cold_servers import S3, Hdfs, write_xml
from rhumbline.tests.support.servers.kerberos import REALM, Kdc

_HOST = "localhost"
_PASSWORD = "of-the-keystore"


class SecureS3(S3):
    """An S3 server with https, whose certificate an authority of its own has signed."""

    name = "s3-https"

    def __init__(self) -> None:
        super().__init__()
        self.certificates: Certificates = certificates(self.directory / "tls")

    def command_line(self) -> list[str]:
        """See Server."""
        program, *options = super().command_line()
        pair = self.certificates.server
        return [program, "--cert", str(pair.cert), "--key", str(pair.key), *options]

    def is_ready(self) -> bool:
        """See Server."""
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        try:
            urllib.request.urlopen(f"https://{self.address}/", timeout=2, context=context).close()
        except urllib.error.HTTPError:
            return True  # it responds, and refuses the unsigned request
        except OSError:
            return False
        return True


class SecureHdfs(Hdfs):
    """HDFS with https only, and with Kerberos if there is a ``kdc``; its host is ``localhost``."""

    name = "hdfs-https"

    def __init__(self, kdc: Kdc | None = None) -> None:
        self._kdc = kdc
        self.https_port = free_port()
        if kdc is not None:
            self.java_options = (f"-Djava.security.krb5.conf={kdc.configuration}",)
            self._keytab = kdc.keytab(f"hdfs/{_HOST}", f"HTTP/{_HOST}")
        super().__init__()

    @property
    def secure_address(self) -> str:
        """host:port of the NameNode for https."""
        return f"{_HOST}:{self.https_port}"

    def _write_configuration(self) -> None:
        self.certificates: Certificates = certificates(self.directory / "tls")
        super()._write_configuration()
        store = self.directory / "server.p12"
        pair = self.certificates.server
        subprocess.run(
            ["openssl", "pkcs12", "-export", "-in", str(pair.cert), "-inkey", str(pair.key),
             "-name", "server", "-out", str(store), "-passout", f"pass:{_PASSWORD}"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        write_xml(
            self.directory / "conf" / "ssl-server.xml",
            {
                "ssl.server.keystore.location": str(store),
                "ssl.server.keystore.type": "pkcs12",
                "ssl.server.keystore.password": _PASSWORD,
                "ssl.server.keystore.keypassword": _PASSWORD,
            },
        )
        shutil.copy(
            self.directory / "conf" / "ssl-server.xml", self.directory / "conf" / "ssl-client.xml"
        )

    def core_site(self) -> dict[str, str]:
        """See Hdfs."""
        found = super().core_site()
        if self._kdc is not None:
            found |= {
                "fs.defaultFS": f"hdfs://{_HOST}:{self._rpc_port}",
                "hadoop.security.authentication": "kerberos",
                "hadoop.security.authorization": "true",
                "hadoop.security.token.service.use_ip": "false",
                "hadoop.http.authentication.type": "kerberos",
                "hadoop.http.authentication.kerberos.principal": f"HTTP/{_HOST}@{REALM}",
                "hadoop.http.authentication.kerberos.keytab": str(self._keytab),
                "hadoop.http.authentication.kerberos.endpoint.whitelist": "/jmx",  # for is_ready
                "hadoop.http.authentication.signature.secret.file": str(self._secret()),
            }
        return found

    def _secret(self) -> Path:
        """Return a file with the key that signs the cookies of authenticated callers."""
        file = self.directory / "signature-secret"
        file.write_text(os.urandom(16).hex())
        return file

    def hdfs_site(self) -> dict[str, str]:
        """See Hdfs."""
        found = super().hdfs_site() | {
            "dfs.http.policy": "HTTPS_ONLY",
            "dfs.namenode.https-address": self.secure_address,
            "dfs.datanode.https.address": f"{_HOST}:0",
            "dfs.datanode.hostname": _HOST,
            "dfs.namenode.rpc-address": f"{_HOST}:{self._rpc_port}",
        }
        if self._kdc is None:
            return found
        for server in ("namenode", "datanode"):
            found[f"dfs.{server}.kerberos.principal"] = f"hdfs/{_HOST}@{REALM}"
            found[f"dfs.{server}.keytab.file"] = str(self._keytab)
        return found | {
            "dfs.permissions.enabled": "false",  # of users; all of them need Kerberos
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": "authentication",
            "dfs.web.authentication.kerberos.principal": f"HTTP/{_HOST}@{REALM}",
            "dfs.web.authentication.kerberos.keytab": str(self._keytab),
        }

    def _bean(self, name: str) -> "dict[str, object]":
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        url = f"https://{self.secure_address}/jmx?qry=Hadoop:service=NameNode,name={name}"
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            bean: dict[str, object] = json.load(answer)["beans"][0]
            return bean
