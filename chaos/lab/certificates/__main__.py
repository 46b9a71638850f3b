"""``python -m rhumbline.chaos.lab.certificates``: the rotation with processes in three regions.

Each region has two bookies; bookies are restarted after each step, one each time, so that every
step is also seen by a process that begins with it. The exit code is 1 if an append failed or the
old certificate is still accepted.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

from ....client.connect import Client
from ....client.system_runtime import run, system_runtime
from ....core.log.namespace import create_namespace
from ....core.log.policy import StreamPolicy
from ....core.protocol.errors import UnavailableError
from ....core.protocol.quorum import Quorum
from ....security.settings import TlsSettings
from ....tls.credentials import TlsCredentials
from ...managed_process import ManagedProcess, rhumbline_command
from ...server_processes import BookieProcess, ProxyProcess
from .deployment import CLIENT, SERVER, Deployment
from .rotation import REGION, STREAMS, Rotation, RotationResult, SecuredCluster

REGIONS = (REGION, "north", "west")
POLICY = StreamPolicy(Quorum(3, 3, 2, 2))
_EACH = 2
_COMMAND_S_MAX = 120.0


async def make_streams(metadata: str, tls: TlsSettings) -> None:
    """Create the namespace and the streams of the rotation in a cluster that runs."""
    runtime = system_runtime(None, TlsCredentials(tls))
    async with Client(metadata, region=REGION, runtime=runtime) as client:
        await create_namespace(client.store, client.runtime, "default", POLICY)
        for stream in STREAMS:
            await client.namespace().create_stream(stream)


@contextmanager
def _running(folder: Path, deployment: Deployment) -> Iterator[SecuredCluster]:
    metadata = f"sqlite://{folder.resolve()}/metadata.db"
    tls = deployment.settings(SERVER)
    environ = {
        "RHUMBLINE_TLS__CERTIFICATE": tls.certificate,
        "RHUMBLINE_TLS__KEY": tls.key,
        "RHUMBLINE_TLS__CA": tls.ca,
        "RHUMBLINE_TLS__SERVER_NAME": tls.server_name,
    }
    _command(folder, "cluster", "init", "-u", metadata, "--region", REGION)
    names = [(f"{region}-{number}", region) for region in REGIONS for number in range(_EACH)]
    for name, region in names:
        _command(
            folder, "bookie", "format", str(folder / name), "--name", name, "-u", metadata,
            "--region", region,
        )  # fmt: skip
    with ExitStack() as closing:
        bookies = [
            BookieProcess(folder / name, metadata, "--region", region, environ=environ)
            for name, region in names
        ]
        for bookie in bookies:
            closing.callback(bookie.kill)
            bookie.launch()
        for bookie in bookies:
            bookie.wait_ready()
        run(make_streams(metadata, deployment.settings(CLIENT)))
        proxy = closing.enter_context(
            ProxyProcess(folder, metadata, "write-proxy", "proxy", region=REGION, environ=environ)
        )
        turns = cycle(bookies)

        def restart() -> None:
            bookie = next(turns)
            bookie.stop()
            bookie.start()

        proxy_port = int(proxy.address.rpartition(":")[2])
        yield SecuredCluster(
            metadata,
            proxy.address,
            lambda: [proxy_port, *(bookie.port for bookie in bookies if bookie.is_running)],
            lambda: asyncio.to_thread(restart),
        )


def _command(folder: Path, *arguments: str) -> None:
    process = ManagedProcess("command", rhumbline_command(*arguments), folder / "commands.log")
    process.launch()
    if process.wait(_COMMAND_S_MAX):
        raise UnavailableError(f"{process}: {process.end_of_log}")


def rotate(folder: Path, pause_s: float) -> RotationResult:
    """Run the rotation with processes whose files are below ``folder``."""
    deployment = Deployment(folder)
    with _running(folder, deployment) as cluster:
        return run(Rotation(cluster, deployment).run(pause_s=pause_s))


def main(arguments: Sequence[str]) -> int:
    """Run the rotation and print its result."""
    parser = argparse.ArgumentParser(prog="certificates")
    parser.add_argument("--pause", type=float, default=10.0, help="seconds of each step")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rhumbline-certificates-") as folder:
        result = rotate(Path(folder), options.pause)
    print("\n".join(result.lines()))
    return 1 if result.failures or not result.old_certificate_is_refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
