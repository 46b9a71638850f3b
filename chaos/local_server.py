"""A real cluster on this machine for the tests of applications: TLS, tokens and grants.

``LocalServer`` runs a region with three bookies in one process, and a proxy in another one. An
application under test connects to them as in production, so its handling of certificates, tokens
and refusals is tested too; for outages of regions there is ``Rehearsal``, without processes.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from ..access.grant_store import change_grants
from ..backends.open_store import open_store
from ..core.protocol.errors import InvalidArgumentError, UnavailableError
from ..security.grant_table import GrantTable
from ..security.grants import make_grant
from ..security.principal import Role
from ..security.settings import TlsSettings
from ..security.token_claims import static_token_line
from ..server.status_server import fetch_status
from ..tls.authority import SERVER_NAME, Authority
from ..tls.credentials import TlsCredentials
from .managed_process import ManagedProcess, rhumbline_command
from .server_processes import READY_S_MAX, ProxyProcess, status_port

T = TypeVar("T")

LOCAL_REGION = "local"
_HOST = "127.0.0.1"
_TLS = "tls"
_DAYS = 1
_TOKEN_BYTES = 32
_REFRESH_MS = 100
_IN_FORCE_S_MAX = 10.0
_STATUS_MS_MAX = 2_000
_OPERATOR = "operator"


class LocalServer:
    """A cluster with a proxy, from ``start`` to ``close``. Created by ``rhumbline_server``.

    With ``tls`` all connections are encrypted, and clients need the certificate that
    ``client_tls`` issues. With ``tokens`` a client identifies itself by a token instead. With
    ``access_control`` the proxy serves only what was granted by ``grant``; callers must then be
    known by one of the two. All methods block for milliseconds, and may be called in a coroutine.
    """

    def __init__(
        self,
        directory: Path,
        *,
        tls: bool = True,
        tokens: bool = False,
        access_control: bool = False,
    ) -> None:
        """``directory`` is empty. Raises InvalidArgumentError if callers would be unknown."""
        if access_control and not (tls or tokens):
            raise InvalidArgumentError("access_control needs tls or tokens, to know the callers")
        self._directory = directory
        self._uses_tls = tls
        self._uses_tokens = tokens
        self._uses_grants = access_control
        self._cluster = directory / "cluster"
        self._token_file = directory / "tokens"
        self._lines: dict[str, str] = {}
        options = ["--tls"] if tls else []
        self._dev = ManagedProcess(
            "dev",
            rhumbline_command(
                "dev", str(self._cluster), "--regions", LOCAL_REGION, "--bookies", "3", *options
            ),
            directory / "dev.log",
            ready="^the cluster is up",
            ready_s_max=READY_S_MAX,
        )
        self._proxy: ProxyProcess | None = None

    def start(self) -> None:
        """Start the processes and wait until they serve. Raises UnavailableError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._dev.start()
        self._proxy = ProxyProcess(
            self._directory, self.metadata_uri, "write-proxy", "proxy", "--with-read",
            region=LOCAL_REGION, environ=self._proxy_environ(),
        )  # fmt: skip
        self._proxy.start()

    def close(self) -> None:
        """Stop the processes. Safe to repeat."""
        if self._proxy is not None:
            self._proxy.stop()
        self._dev.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """The URI of the proxy, for ``connect``."""
        assert self._proxy is not None, "not started"
        return f"grpc://{self._proxy.address}"

    @property
    def metadata_uri(self) -> str:
        """The URI of the metadata store; a client that uses it needs a certificate, not a token."""
        return f"sqlite://{self._cluster.resolve()}/metadata.db"

    @property
    def ports(self) -> dict[str, list[int]]:
        """All ports by kind: ``bookie``, ``proxy`` and ``status``."""
        assert self._proxy is not None, "not started"
        rows = re.findall(r" address \S+:(\d+) +status https?://\S+:(\d+)", self._dev.output)
        return {
            "bookie": [int(bookie) for bookie, _ in rows],
            "proxy": [int(self._proxy.address.rpartition(":")[2])],
            "status": [*(int(status) for _, status in rows), self._proxy_status_port],
        }

    @property
    def audit_log(self) -> Path:
        """The audit log of the proxy."""
        return self._directory / "audit.jsonl"

    # --- who may connect --------------------------------------------------------------------------

    def client_tls(self, name: str = "client", *roles: str) -> TlsSettings | None:
        """Issue a certificate for a principal and return the settings that use it.

        The principal is ``spiffe://dev/ROLE/NAME``, with the first role or ``client``. With tokens
        the settings have no certificate; without TLS there are none.
        """
        if not self._uses_tls:
            return None
        authority = Authority(self._cluster / _TLS)
        ca = str(authority.certificate_file)
        if self._uses_tokens:
            return TlsSettings(ca=ca, server_name=SERVER_NAME)
        return self._certificate(name, [Role(role) for role in roles] or [Role.CLIENT])

    def token(self, name: str, *roles: str) -> str:
        """Return a new token of the principal ``name``, which replaces an earlier one.

        Raises InvalidArgumentError for a server without tokens.
        """
        if not self._uses_tokens:
            raise InvalidArgumentError("the server has no tokens: rhumbline_server(tokens=True)")
        token = secrets.token_hex(_TOKEN_BYTES)
        self._lines[name] = static_token_line(name, token, [Role(role) for role in roles])
        self._write_tokens()
        return token

    def withdraw_token(self, name: str) -> None:
        """Withdraw the token of a principal. Safe to repeat."""
        self._lines.pop(name, None)
        self._write_tokens()

    # --- what they may do -------------------------------------------------------------------------

    def grant(
        self, principal: str, actions: Iterable[str], resource: str, effect: str = "allow"
    ) -> None:
        """Grant actions on a resource, as ``rhumbline access grant``, and wait until it holds.

        Raises InvalidArgumentError, and UnavailableError if the proxy does not take it.
        """
        one = make_grant(principal, actions, resource, effect)
        self._change(lambda table: table.granted(one))

    def revoke(
        self, principal: str, actions: Iterable[str], resource: str, effect: str = "allow"
    ) -> None:
        """Take back what ``grant`` gave, and wait until that holds. Raises as ``grant``."""
        one = make_grant(principal, actions, resource, effect)
        self._change(lambda table: table.revoked(one))

    def _change(self, change: Callable[[GrantTable], GrantTable]) -> None:
        if not self._uses_grants:
            raise InvalidArgumentError(
                "the server has no grants: rhumbline_server(access_control=True)"
            )
        changed_at = _run(self._store_grants(change))
        deadline = changed_at + _IN_FORCE_S_MAX
        while not _run(self._has_read_grants_since(changed_at)):
            if time.monotonic() > deadline:
                raise UnavailableError(f"the proxy has not read grants for {_IN_FORCE_S_MAX:g} s")
            time.sleep(_REFRESH_MS / 2000)

    async def _store_grants(self, change: Callable[[GrantTable], GrantTable]) -> float:
        store = await open_store(self.metadata_uri)
        try:
            await change_grants(store, change)
        finally:
            await store.close()
        return time.monotonic()

    async def _has_read_grants_since(self, since_s: float) -> bool:
        asked_at = time.monotonic()
        age_ms = (await self._proxy_statistics())["access"]["grants_age_ms"]
        return age_ms is not None and asked_at - age_ms / 1000 > since_s

    async def _proxy_statistics(self) -> dict[str, Any]:
        credentials = None
        if self._uses_tls:
            credentials = TlsCredentials(self._certificate(_OPERATOR, [Role.ADMIN]))
        return await fetch_status(
            _HOST, self._proxy_status_port, "/stat",
            timeout_ms=_STATUS_MS_MAX, credentials=credentials,
        )  # fmt: skip

    @property
    def _proxy_status_port(self) -> int:
        assert self._proxy is not None, "not started"
        return status_port(self._proxy)

    # --- files ------------------------------------------------------------------------------------

    def _certificate(self, name: str, roles: list[Role]) -> TlsSettings:
        authority = Authority(self._cluster / _TLS)
        issued = authority.issue(name, roles, hosts=[_HOST], days=_DAYS)
        return TlsSettings(
            certificate=str(issued.certificate),
            key=str(issued.key),
            ca=str(authority.certificate_file),
            server_name=SERVER_NAME,
        )

    def _proxy_environ(self) -> dict[str, str]:
        found = {"RHUMBLINE_AUDIT__FILE": str(self.audit_log)}
        if self._uses_tls:
            directory = (self._cluster / _TLS).resolve()
            found |= {
                "RHUMBLINE_TLS__CERTIFICATE": f"{directory}/server.pem",
                "RHUMBLINE_TLS__KEY": f"{directory}/server.key",
                "RHUMBLINE_TLS__CA": f"{directory}/ca.pem",
                "RHUMBLINE_TLS__SERVER_NAME": SERVER_NAME,
            }
        if self._uses_tokens:
            own = self._directory / "own-token"
            own.write_text(self.token("proxy", Role.PROXY))
            found |= {
                "RHUMBLINE_TLS__PROXY_CLIENT_CERTIFICATES": "false",
                "RHUMBLINE_SECURITY__STATIC_TOKENS": str(self._token_file),
                "RHUMBLINE_SECURITY__TOKEN_FILE": str(own),
            }
        if self._uses_grants:
            found |= {
                "RHUMBLINE_SECURITY__ACCESS_CONTROL": "true",
                "RHUMBLINE_SECURITY__GRANTS_REFRESH_MS": str(_REFRESH_MS),
            }
        return found

    def _write_tokens(self) -> None:
        part = self._token_file.with_suffix(".part")
        part.write_text("".join(f"{line}\n" for line in self._lines.values()))
        part.replace(self._token_file)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also while an event loop runs in this thread."""
    with ThreadPoolExecutor(1, "local-server") as thread:
        return thread.submit(asyncio.run, coroutine).result()


class LocalServerFactory(Protocol):
    """The type of the fixture ``rhumbline_server``, which starts clusters."""

    def __call__(
        self, *, tls: bool = True, tokens: bool = False, access_control: bool = False
    ) -> LocalServer:
        """Start a cluster; it is stopped after the test. See ``LocalServer``."""
        ...
