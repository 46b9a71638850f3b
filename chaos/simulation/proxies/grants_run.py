"""A run of the plan ``grants``: tenants, their permissions, and what proxies send to them."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from google.protobuf.message import Message

from ....access.access_control import AccessControl
from ....access.grant_store import change_grants
from ....core.protocol.errors import PermissionDeniedError, RhumblineError, StreamExistsError
from ....core.protocol.start import EARLIEST
from ....core.runtime.tasks import Tasks
from ....proxies.client.proxy_client import ProxyClient
from ....proxies.proxy_uri import SCHEME
from ....proxies.rpc import rhumbline_pb2 as pb
from ....proxies.rpc.methods import Method
from ....security.caller import Caller
from ....security.grant_table import GrantTable
from ....security.grants import Action, Grant, make_grant
from ....security.principal import Principal, Role
from ...checker.history import GrantUse, TenantDelivery
from ...checker.run_record import RunRecord
from ..cluster import NAMESPACE, STREAM, SimClient
from ..seed_run import RunPlan, RunResult
from ..world.sim_world import SimHost, SimWorld
from .proxy_calls import SimCalls
from .proxy_plan_run import ProxyPlanRun

REFRESH_MS, STALE_MS = 150, 700
ACTIONS = (Action.APPEND, Action.READ)
TENANTS = ("red", "blue")
MAIN, OPERATOR = "main", "grants-operator"
_RETRY_S = 0.2
_PAUSE_S = 0.1
_PERIOD_S = 1.5
"""Maximum time between two changes of permissions."""


def stream_of(tenant: str) -> str:
    """Return the stream of a tenant."""
    return f"{tenant}-log"


def _grant(tenant: str, *actions: Action) -> Grant:
    return make_grant(tenant, actions, f"stream:{NAMESPACE}/{tenant}-*")


class SentToTenants:
    """Records what proxies acknowledge and deliver. Implements CallWatch.

    The times are those at which a proxy hands a message over to be sent.
    """

    def __init__(self, world: SimWorld, use: GrantUse) -> None:
        self._world = world
        self._use = use
        self._appends: dict[Caller, dict[int, str]] = {}
        self._reads: dict[Caller, str] = {}
        self._calls = 0

    def caller(self, host: str) -> Caller:
        """See CallWatch: tenants have hosts of their own; other programs are administrators."""
        self._calls += 1
        role, name = Role.ADMIN, MAIN
        if host.startswith(("proxy-", "reads-", "new-")):
            role, name = Role.PROXY, "proxy"
        elif host.startswith("tenant-"):
            role, name = Role.CLIENT, host.split("-")[1]
        return Caller(Principal(name, frozenset({role})), peer=f"{host}:{self._calls}")

    def received(self, caller: Caller, method: Method, message: Message) -> None:
        """See CallWatch."""
        if isinstance(message, pb.AppendRequest):
            streams = self._appends.setdefault(caller, {})
            streams.update((item.id, item.stream) for item in message.items)
        elif isinstance(message, pb.ReadRequest):
            self._reads.setdefault(caller, message.stream)

    def sent(self, caller: Caller, method: Method, message: Message) -> None:
        """See CallWatch."""
        if isinstance(message, pb.AppendResponse):
            for answer in message.answers:
                for id_ in answer.ids:
                    stream = self._appends[caller].pop(id_)
                    if not answer.HasField("error"):
                        self._note(caller, stream, is_append=True)
        elif isinstance(message, pb.ReadResponse) and (message.entries or message.records):
            self._note(caller, self._reads[caller], is_append=False)

    def _note(self, caller: Caller, stream: str, *, is_append: bool) -> None:
        now_ms = self._world.loop.now * 1000
        self._use.deliveries.append(
            TenantDelivery(caller.principal.name, stream, now_ms, is_append)
        )


class GrantsRun(ProxyPlanRun):
    """A run whose proxies check grants."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self._use = GrantUse(
            STALE_MS, {MAIN: (STREAM,), **{tenant: (stream_of(tenant),) for tenant in TENANTS}}
        )
        self.watch = SentToTenants(world, self._use)
        self._refusals = 0
        self._revocations = 0
        regions = plan.topology.regions
        self._operator = world.host(OPERATOR, regions[0])
        self._tenants = [
            world.host(f"tenant-{tenant}-{region}", region)
            for tenant in TENANTS
            for region in regions[:2]
        ]

    async def access_control(self, client: SimClient) -> AccessControl | None:
        """See ProxyRun."""
        control = AccessControl(client.store, refresh_ms=REFRESH_MS, stale_ms_max=STALE_MS)
        await control.start()
        return control

    async def _inject_faults(self, run: object) -> None:
        self._operator.start(self._administer)
        for host in self._tenants:
            host.start(self._be_tenant)
        await super()._inject_faults(self)
        for host in self._tenants:
            host.kill("is done")

    # --- the administrator ----------------------------------------------------------------------

    async def _administer(self, host: SimHost) -> None:
        random = self.world.random_of("administrator of grants")
        async with self.cluster.client(host) as client:
            namespace = client.namespace
            both = GrantTable(_grant(tenant, *ACTIONS) for tenant in TENANTS)
            await self._until_done(lambda: change_grants(client.store, lambda _: both))
            for stream in map(stream_of, TENANTS):
                await self._until_done(partial(namespace.create_stream, stream))
            while not self.world.is_healed:
                await asyncio.sleep(random.random() * _PERIOD_S)
                tenant, action = random.choice(TENANTS), random.choice(ACTIONS)
                if not self._are_bookies_hanging:
                    await self._change(client, tenant, action)
                elif not self._is_revoked(tenant, Action.APPEND):
                    await self._change(client, tenant, Action.APPEND)

    @property
    def _are_bookies_hanging(self) -> bool:
        """True if no append can end now: a permission that ends meanwhile forbids its result."""
        processes = [host.process for host in self.cluster.bookie_hosts]
        return not any(process is not None and process.is_running for process in processes)

    def _is_revoked(self, tenant: str, action: Action) -> bool:
        revoked = self._use.revoked.get((tenant, action is Action.APPEND), [])
        return bool(revoked) and revoked[-1][1] == float("inf")

    async def _change(self, client: SimClient, tenant: str, action: Action) -> None:
        revoked = self._use.revoked.setdefault((tenant, action is Action.APPEND), [])
        one = _grant(tenant, action)
        if self._is_revoked(tenant, action):
            revoked[-1] = (revoked[-1][0], self.world.loop.now * 1000)
            await self._until_done(
                lambda: change_grants(client.store, lambda table: table.granted(one))
            )
            return
        await self._until_done(
            lambda: change_grants(client.store, lambda table: table.revoked(one))
        )
        self._revocations += 1
        revoked.append((self.world.loop.now * 1000, float("inf")))

    async def _until_done(self, change: Callable[[], Awaitable[object]]) -> None:
        """Repeat a change until it is confirmed."""
        while True:
            try:
                await change()
                return
            except StreamExistsError:
                return
            except RhumblineError:
                await asyncio.sleep(_RETRY_S)

    # --- the tenants ----------------------------------------------------------------------------

    async def _be_tenant(self, host: SimHost) -> None:
        name = host.name.split("-")[1]
        other = next(tenant for tenant in TENANTS if tenant != name)
        addresses = sorted(self.thin.addresses, key=lambda one: f"-{host.region}-" not in one)
        async with ProxyClient(
            SCHEME + ",".join(addresses), host.runtime(), SimCalls(), namespace=NAMESPACE
        ) as client:
            tasks = Tasks()
            for work in (
                self._append_to(client, name, name),
                self._read_from(client, name, name),
                self._append_to(client, name, other),
                self._read_from(client, name, other),
            ):
                tasks.spawn(work, f"work of {name}")
            await asyncio.Event().wait()

    async def _append_to(self, client: ProxyClient, tenant: str, owner: str) -> None:
        """Append for ever, with pauses after refusals."""
        while True:
            try:
                async with await client.namespace().open_writer(stream_of(owner)) as writer:
                    while True:
                        await writer.append(tenant.encode())
                        await asyncio.sleep(_PAUSE_S)
            except RhumblineError as error:
                self._count(error)
            await asyncio.sleep(_RETRY_S)

    async def _read_from(self, client: ProxyClient, tenant: str, owner: str) -> None:
        """Read from the beginning, for ever; begin again after refusals."""
        while True:
            try:
                reader = await client.namespace().open_reader(stream_of(owner), EARLIEST)
                async with reader:
                    async for record in reader:
                        writer = bytes(record.payload).decode()
                        self._use.seen[tenant, stream_of(writer)] = None
            except RhumblineError as error:
                self._count(error)
            await asyncio.sleep(_RETRY_S)

    def _count(self, error: RhumblineError) -> None:
        self._refusals += isinstance(error, PermissionDeniedError)

    # --- results --------------------------------------------------------------------------------

    def record(self) -> RunRecord:
        """See SeedRun."""
        record = super().record()
        record.grants = self._use
        return record

    def fill_result(self, result: RunResult) -> None:
        """See SeedRun."""
        super().fill_result(result)
        mine = [one for one in self._use.deliveries if one.principal in TENANTS]
        result.states["revocations"] = self._revocations
        result.states["calls refused"] = self._refusals
        result.states["appends of tenants"] = sum(one.is_append for one in mine)
        result.states["deliveries to tenants"] = sum(not one.is_append for one in mine)
