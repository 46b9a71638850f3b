"""Real servers of cold stores with https."""

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

from rhumbline.chaos.lab.ports import free_port
from rhumbline.tests.support.servers.certificates import Certificates, certificates
from rhumbline.tests.support.servers.cold_servers import S3, Hdfs, write_xml

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
    """HDFS with https only; its host is ``localhost``."""

    name = "hdfs-https"

    def __init__(self) -> None:
        self.https_port = free_port()
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

    def hdfs_site(self) -> dict[str, str]:
        """See Hdfs."""
        return super().hdfs_site() | {
            "dfs.http.policy": "HTTPS_ONLY",
            "dfs.namenode.https-address": self.secure_address,
            "dfs.datanode.https.address": f"{_HOST}:0",
            "dfs.datanode.hostname": _HOST,
            "dfs.namenode.rpc-address": f"{_HOST}:{self._rpc_port}",
        }

    def _bean(self, name: str) -> "dict[str, object]":
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        url = f"https://{self.secure_address}/jmx?qry=Hadoop:service=NameNode,name={name}"
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            bean: dict[str, object] = json.load(answer)["beans"][0]
            return bean
