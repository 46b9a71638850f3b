"""Replaces all certificates of a cluster that is written all the time, authority included.

One writer appends directly and another one through a proxy, each record after the one before. After
each step every port must present the certificate that is on the disk, and new clients must be able
to write both ways. No append may fail.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from ....client.connect import connect
from ....core.ledger.config import LedgerConfig
from ....core.log.api.log_client import LogClient
from ....core.protocol.errors import RhumblineError, UnavailableError
from ....core.runtime.tasks import Tasks
from ....security.settings import TlsSettings
from ....tls.credentials import TlsCredentials
from .deployment import CLIENT, HOST, SERVER, Deployment

REGION = "east"
STREAMS = ("direct", "proxied", "new-direct", "new-proxied", "late-direct", "late-proxied")
DIRECT, PROXIED, NEW_DIRECT, NEW_PROXIED, LATE_DIRECT, LATE_PROXIED = STREAMS

_PAUSE_S = 0.005
_SETTLE_S_MAX = 60.0
_PICKED_UP_S = 1.5
"""Time after which servers have read changed files: they look at them once a second."""
_REFUSAL_S = 3.0
_IMPATIENT = LedgerConfig(replacement_wait_ms_max=200, quorum_timeout_ms=1_000)


@dataclass(frozen=True, slots=True)
class SecuredCluster:
    """A running cluster whose processes use the certificates of a ``Deployment``."""

    metadata: str
    proxy: str
    """host:port of a proxy that writes."""
    ports: Callable[[], Sequence[int]]
    """The ports with TLS that exist now."""
    restart_next: Callable[[], Awaitable[None]] | None = None
    """Restarts a bookie, another one at each call; None: nothing is restarted."""


@dataclass
class Gap:
    """The appends of one writer: their number, and the longest time without one."""

    appended: int = 0
    longest_ms: float = 0.0
    step: str = ""
    """The step in which the longest gap ended."""
    failures: list[str] = field(default_factory=list)


@dataclass
class RotationResult:
    """The outcome of a rotation."""

    gaps: dict[str, Gap]
    steps: list[str]
    old_certificate_is_refused: bool

    @property
    def failures(self) -> list[str]:
        """The errors of all appends that failed."""
        return [text for gap in self.gaps.values() for text in gap.failures]

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        return [
            *(
                f"{name}: {gap.appended} appends, {len(gap.failures)} failed, longest gap "
                f"{gap.longest_ms:.0f} ms ({gap.step})"
                for name, gap in self.gaps.items()
            ),
            "clients with a certificate of the old authority are "
            + ("refused" if self.old_certificate_is_refused else "SERVED"),
        ]


class Rotation:
    """The steps of the guide, applied to a cluster under load."""

    def __init__(self, cluster: SecuredCluster, deployment: Deployment) -> None:
        self._cluster = cluster
        self._deployment = deployment
        self._step = "before"

    async def run(self, *, pause_s: float = 1.0) -> RotationResult:
        """Run all steps, each for ``pause_s`` and until it has taken effect.

        Raises UnavailableError if a step has no effect in time, and the error of a new client that
        cannot write.
        """
        deployment = self._deployment
        steps = {
            "renewed": deployment.renew,
            "both authorities trusted": deployment.trust_both,
            "certificates of the new authority": deployment.change_authority,
            "old authority removed": deployment.distrust_old,
        }
        tls = deployment.settings(CLIENT)
        gaps = {DIRECT: Gap(), PROXIED: Gap()}
        tasks = Tasks()
        async with AsyncExitStack() as closing:
            for name, gap in gaps.items():
                client = await closing.enter_async_context(self._client(name, tls))
                tasks.spawn(self._append(client, name, gap), name)
            closing.push_async_callback(tasks.aclose)
            await self._settle(pause_s)
            for name, step in steps.items():
                self._step = name
                await asyncio.to_thread(step)
                await self._settle(pause_s)
        await asyncio.sleep(_PICKED_UP_S)
        is_refused = await self._is_old_refused()
        return RotationResult(gaps, list(steps), is_refused)

    def _client(
        self, stream: str, tls: TlsSettings, ledger: LedgerConfig | None = None
    ) -> LogClient:
        if stream.endswith(DIRECT):
            return connect(self._cluster.metadata, region=REGION, tls=tls, ledger=ledger)
        return connect(f"grpc://{self._cluster.proxy}", tls=tls)

    async def _append(self, client: LogClient, stream: str, gap: Gap) -> None:
        now = asyncio.get_running_loop().time
        async with client.writer(stream) as writer:
            last = now()
            while True:
                try:
                    await writer.append(b"%d" % gap.appended)
                except RhumblineError as error:
                    gap.failures.append(f"{self._step}: {error!r}")
                    return
                gap.appended += 1
                waited_ms = (now() - last) * 1000
                last = now()
                if waited_ms > gap.longest_ms:
                    gap.longest_ms, gap.step = waited_ms, self._step
                await asyncio.sleep(_PAUSE_S)

    async def _settle(self, pause_s: float) -> None:
        """Wait until the step has taken effect everywhere, and check that new clients can write."""
        async with _deadline(f"the step {self._step!r} has no effect"):
            expected = _der(self._deployment.certificate(SERVER).read_text())
            while {await self._served(port) for port in self._cluster.ports()} != {expected}:  # noqa: ASYNC110 - they are other processes
                await asyncio.sleep(0.1)
        await asyncio.sleep(pause_s)
        if self._cluster.restart_next is not None:
            await self._cluster.restart_next()
        async with _deadline(f"new clients cannot write after {self._step!r}"):
            for stream in (NEW_DIRECT, NEW_PROXIED):
                await self._write_once(stream, self._deployment.settings(CLIENT))

    async def _write_once(
        self, stream: str, tls: TlsSettings, ledger: LedgerConfig | None = None
    ) -> None:
        async with (
            self._client(stream, tls, ledger) as client,
            client.writer(stream) as writer,
        ):
            await writer.append(b"new")

    async def _served(self, port: int) -> bytes | None:
        credentials = TlsCredentials(self._deployment.settings(CLIENT))
        try:
            _, writer = await asyncio.open_connection(
                HOST,
                port,
                ssl=credentials.client_context(),
                server_hostname=credentials.server_name(HOST),
            )
        except (OSError, ssl.SSLError):
            return None
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    async def _is_old_refused(self) -> bool:
        tls = self._deployment.settings_of_old_authority()
        for stream in (LATE_DIRECT, LATE_PROXIED):
            try:
                async with asyncio.timeout(_REFUSAL_S):
                    await self._write_once(stream, tls, _IMPATIENT)
            except (RhumblineError, TimeoutError):
                continue
            return False
        return True


def _der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem)


@asynccontextmanager
async def _deadline(text: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_SETTLE_S_MAX):
            yield
    except TimeoutError:
        raise UnavailableError(f"{text} within {_SETTLE_S_MAX:.0f} s") from None
