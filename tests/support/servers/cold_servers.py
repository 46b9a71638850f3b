"""Real servers of cold stores for tests: an S3 server, and HDFS with one NameNode and DataNode."""

import functools
import getpass
import itertools
import json
import subprocess
import urllib.request
from pathlib import Path

from rhumbline.chaos.lab.ports import free_port
from rhumbline.coldstore.stores.hdfs import HdfsColdStore, HdfsOptions
from rhumbline.coldstore.stores.s3 import S3ColdStore, S3Options
from rhumbline.tests.support.servers import installs
from rhumbline.tests.support.servers.metadata_servers import Server, started

_NUMBERS = itertools.count()

VERSITYGW = "v1.8.0"
HADOOP = "3.5.0"

_HADOOP_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>rhumbline.tests</groupId><artifactId>hdfs</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-minicluster</artifactId>
      <version>{HADOOP}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-runtime</artifactId>
      <version>{HADOOP}</version>
    </dependency>
  </dependencies>
</project>
"""


class S3(Server):
    """An S3 server over a directory with the bucket ``bucket``; user ``stranger`` has no rights."""

    name = "s3"
    access_key, secret_key = "rhumbline-test", "rhumbline-test-secret"
    stranger = "stranger"
    bucket = "archive"

    def __init__(self) -> None:
        installs.require("go")
        module = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"
        place = installs.installed(
            f"versitygw-{VERSITYGW}", lambda into: installs.go_install(module, into)
        )
        self._binary = place / "versitygw"
        super().__init__()

    def command_line(self) -> list[str]:
        """See Server."""
        (self.directory / "data" / self.bucket).mkdir(parents=True, exist_ok=True)
        accounts = self.directory / "accounts"
        accounts.mkdir(exist_ok=True)
        account = {"access": self.stranger, "secret": self.secret_key, "role": "user"}
        (accounts / "users.json").write_text(
            json.dumps({"accessAccounts": {self.stranger: account}})
        )
        return [
            str(self._binary), "--access", self.access_key, "--secret", self.secret_key,
            "--port", self.address, "--iam-dir", str(accounts),
            "posix", str(self.directory / "data"),
        ]  # fmt: skip

    def is_ready(self) -> bool:
        """See Server."""
        try:
            urllib.request.urlopen(f"http://{self.address}/", timeout=2).close()
        except urllib.error.HTTPError:
            return True  # it responds, and refuses the unsigned request
        except OSError:
            return False
        return True


class Hdfs(Server):
    """A NameNode and a DataNode in one JVM each; ``port`` is the NameNode's HTTP port."""

    name = "hdfs"
    user = getpass.getuser()
    java_options: tuple[str, ...] = ()

    def __init__(self) -> None:
        installs.require("java", "mvn")
        self._jars = installs.installed(
            f"hadoop-{HADOOP}", lambda into: installs.copy_dependencies(_HADOOP_POM, into)
        )
        super().__init__()
        self._rpc_port = free_port()
        self._write_configuration()
        format_command = [*self._java("namenode.NameNode"), "-format", "-force", "-nonInteractive"]
        subprocess.run(format_command, check=True, timeout=60, capture_output=True)
        self._datanode = _DataNode(self.directory, self._java("datanode.DataNode"))

    @property
    def rpc_address(self) -> str:
        """The address (host:port) at which the NameNode speaks Hadoop's own protocol."""
        return f"127.0.0.1:{self._rpc_port}"

    def _write_configuration(self) -> None:
        conf = self.directory / "conf"
        conf.mkdir()
        write_xml(conf / "core-site.xml", self.core_site())
        write_xml(conf / "hdfs-site.xml", self.hdfs_site())

    def core_site(self) -> dict[str, str]:
        """Return the settings of all Hadoop programs."""
        return {
            "fs.defaultFS": f"hdfs://{self.rpc_address}",
            "hadoop.tmp.dir": f"{self.directory}/data/tmp",
            "hadoop.http.staticuser.user": "rhumbline",
        }

    def hdfs_site(self) -> dict[str, str]:
        """Return the settings of HDFS."""
        data = self.directory / "data"
        return {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": f"{data}/name",
            "dfs.datanode.data.dir": f"{data}/data",
            "dfs.namenode.rpc-address": self.rpc_address,
            "dfs.namenode.rpc-bind-host": "127.0.0.1",
            "dfs.namenode.http-address": self.address,
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.webhdfs.enabled": "true",
            "dfs.permissions.enabled": "true",  # the user that starts it is the superuser
            "dfs.namenode.safemode.extension": "0",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.fs-limits.min-block-size": "65536",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        }

    def _java(self, main: str) -> list[str]:
        return [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *self.java_options,
            "-cp", f"{self.directory}/conf:{self._jars}/*",
            f"org.apache.hadoop.hdfs.server.{main}",
        ]  # fmt: skip

    def command_line(self) -> list[str]:
        """See Server."""
        return self._java("namenode.NameNode")

    def launch(self) -> None:
        """Start both processes."""
        super().launch()
        self._datanode.launch()

    def is_ready(self) -> bool:
        """Return whether a DataNode has registered and the NameNode has left safe mode."""
        try:
            state = self._bean("FSNamesystemState")
            return state["NumLiveDataNodes"] == 1 and self._bean("NameNodeInfo")["Safemode"] == ""
        except (OSError, ValueError, LookupError):
            return False

    def data_address(self) -> str:
        """Return the host:port to which the NameNode redirects clients for file contents."""
        (node,) = json.loads(str(self._bean("NameNodeInfo")["LiveNodes"])).values()
        return str(node["infoAddr"])

    def limit_space(self, path: str, size_bytes: int) -> None:
        """Limit the size of a directory to ``size_bytes``."""
        self._put(f"{path}?op=MKDIRS")
        self._put(f"{path}?op=SETQUOTA&storagespacequota={size_bytes}&namespacequota=1000000")

    def _put(self, query: str) -> None:
        url = f"http://{self.address}/webhdfs/v1{query}&user.name={self.user}"
        request = urllib.request.Request(url, method="PUT")
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()

    def _bean(self, name: str) -> "dict[str, object]":
        url = f"http://{self.address}/jmx?qry=Hadoop:service=NameNode,name={name}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            bean: dict[str, object] = json.load(answer)["beans"][0]
            return bean

    def remove(self) -> None:
        """End both processes and remove their files."""
        self._datanode.remove()
        super().remove()


class _DataNode(Server):
    name = "hdfs-data"

    def __init__(self, directory: Path, command_line: list[str]) -> None:
        (directory / "datanode").mkdir()
        super().__init__(directory / "datanode")
        self._command_line = command_line

    def command_line(self) -> list[str]:
        """See Server."""
        return self._command_line


@functools.cache
def _s3() -> S3:
    server = S3()
    server.start()
    return server


@functools.cache
def _hdfs() -> Hdfs:
    server = Hdfs()
    server.start()
    return server


def s3() -> S3:
    """Return the shared S3 server of this test process."""
    return started(_s3)


def hdfs() -> Hdfs:
    """Return the shared HDFS cluster of this test process."""
    return started(_hdfs)


def s3_store(
    *,
    prefix: str | None = None,
    address: str | None = None,
    access_key: str = S3.access_key,
    secret_key: str = S3.secret_key,
    bucket: str = S3.bucket,
    timeout_ms: int = 60_000,
) -> S3ColdStore:
    """Return a store in the shared S3 server, below a new prefix unless one is given."""
    endpoint = f"http://{address or s3().address}"
    place = prefix or f"test-{next(_NUMBERS)}"
    return S3ColdStore(
        S3Options(
            bucket,
            place,
            endpoint=endpoint,
            access_key=access_key,
            secret_key=secret_key,
            timeout_ms=timeout_ms,
        )
    )


def hdfs_store(
    *,
    root: str | None = None,
    address: str | None = None,
    user: str = Hdfs.user,
    timeout_ms: int = 60_000,
) -> HdfsColdStore:
    """Return a store in the shared HDFS, below a new directory unless one is given."""
    url = f"http://{address or hdfs().address}"
    place = root or f"/test-{next(_NUMBERS)}"
    return HdfsColdStore(HdfsOptions(url, place, user=user, timeout_ms=timeout_ms))


def write_xml(path: Path, values: dict[str, str]) -> None:
    """Write a configuration file of Hadoop."""
    lines = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in values.items()
    )
    path.write_text(f"<configuration>\n{lines}</configuration>\n")
