"""Real cold stores for tests: an S3 server and HDFS (one NameNode, one DataNode)."""

import json
import os
import subprocess
import urllib.request
from pathlib import Path

from rhumbline.tests.support import installs
from rhumbline.tests.support.servers import Server, free_port

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
    """An S3 server over a directory; ``bucket`` exists."""

    name = "s3"
    access_key, secret_key = "rhumbline-test", "rhumbline-test-secret"
    bucket = "archive"

    def __init__(self) -> None:
        installs.require("go")
        module = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"
        place = installs.installed(
            f"versitygw-{VERSITYGW}", lambda into: installs.go_install(module, into)
        )
        self._binary = place / "versitygw"
        super().__init__()

    def command(self) -> list[str]:
        """See Server."""
        (self.directory / "data" / self.bucket).mkdir(parents=True, exist_ok=True)
        return [
            str(self._binary), "--access", self.access_key, "--secret", self.secret_key,
            "--port", self.address, "posix", str(self.directory / "data"),
        ]  # fmt: skip

    def is_ready(self) -> bool:
        """See Server."""
        try:
            urllib.request.urlopen(f"http://{self.address}/", timeout=2).close()
        except urllib.error.HTTPError:
            return True  # it answers, and refuses us without a signature
        except OSError:
            return False
        return True


class Hdfs(Server):
    """A NameNode and a DataNode, each a JVM of its own. ``port`` is the NameNode's HTTP port."""

    name = "hdfs"

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

    def _write_configuration(self) -> None:
        conf, data = self.directory / "conf", self.directory / "data"
        conf.mkdir()
        _write_xml(
            conf / "core-site.xml",
            {
                "fs.defaultFS": f"hdfs://127.0.0.1:{self._rpc_port}",
                "hadoop.tmp.dir": f"{data}/tmp",
                "hadoop.http.staticuser.user": "rhumbline",
            },
        )
        _write_xml(
            conf / "hdfs-site.xml",
            {
                "dfs.replication": "1",
                "dfs.namenode.name.dir": f"{data}/name",
                "dfs.datanode.data.dir": f"{data}/data",
                "dfs.namenode.rpc-address": f"127.0.0.1:{self._rpc_port}",
                "dfs.namenode.rpc-bind-host": "127.0.0.1",
                "dfs.namenode.http-address": self.address,
                "dfs.datanode.address": "127.0.0.1:0",
                "dfs.datanode.ipc.address": "127.0.0.1:0",
                "dfs.datanode.http.address": "127.0.0.1:0",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.webhdfs.enabled": "true",
                "dfs.permissions.enabled": "false",
                "dfs.namenode.safemode.extension": "0",
                "dfs.heartbeat.interval": "1",
                "dfs.namenode.fs-limits.min-block-size": "65536",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            },
        )

    def _java(self, main: str) -> list[str]:
        return [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-cp", f"{self.directory}/conf:{self._jars}/*",
            f"org.apache.hadoop.hdfs.server.{main}",
        ]  # fmt: skip

    def command(self) -> list[str]:
        """See Server."""
        return self._java("namenode.NameNode")

    def launch(self) -> None:
        """Starts both."""
        super().launch()
        self._datanode.launch()

    def is_ready(self) -> bool:
        """See Server: a DataNode is there, and the NameNode has left safe mode."""
        try:
            state = self._bean("FSNamesystemState")
            return state["NumLiveDataNodes"] == 1 and self._bean("NameNodeInfo")["Safemode"] == ""
        except (OSError, ValueError, LookupError):
            return False

    def _bean(self, name: str) -> "dict[str, object]":
        url = f"http://{self.address}/jmx?qry=Hadoop:service=NameNode,name={name}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            bean: dict[str, object] = json.load(answer)["beans"][0]
            return bean

    def remove(self) -> None:
        """Ends both."""
        self._datanode.remove()
        super().remove()


class _DataNode(Server):
    name = "hdfs-data"

    def __init__(self, directory: Path, command: list[str]) -> None:
        super().__init__()
        os.rmdir(self.directory)
        self.directory = directory / "datanode"
        self.directory.mkdir()
        self._command = command

    def command(self) -> list[str]:
        """See Server."""
        return self._command


def _write_xml(path: Path, values: dict[str, str]) -> None:
    lines = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in values.items()
    )
    path.write_text(f"<configuration>\n{lines}</configuration>\n")
