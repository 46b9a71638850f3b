"""The administrative calls: any proxy serves them from metadata (rule PRX-23)."""

from collections.abc import Callable
from contextlib import suppress

from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.protocol.errors import (
    InvalidArgumentError,
    NoSuchObjectError,
    NotOwnerError,
    RhumblineError,
)
from ..balance.deleted_streams import forget_deleted
from ..homes.home_keeper import HomeKeeper
from ..membership import WRITE
from ..proxy_stores import ProxyStores
from ..quotas.proxy_quotas import ProxyQuotas
from ..routing import stream_key
from ..write.claims import Claims
from ..write.write_proxy import WriteProxy
from . import rhumbline_pb2 as pb
from .grpc_status import decode_position, encode_position
from .messages import (
    decode_policy,
    decode_schemas,
    encode_description,
    encode_policy,
    encode_schemas,
)
from .proxy_listing import encode_proxies, unknown_load
from .published_loads import PublishedLoads


class Administration:
    """Serves one request per call; errors are raised as RhumblineError."""

    def __init__(
        self,
        namespaces: Callable[[str], Namespace],
        stores: ProxyStores,
        writes: WriteProxy | None,
        homes: HomeKeeper | None,
        quotas: ProxyQuotas,
    ) -> None:
        self._namespaces = namespaces
        self._stores = stores
        self._membership = stores.first.membership
        self._writes = writes
        self._homes = homes
        self._quotas = quotas
        self._loads = PublishedLoads(stores)

    def _claims_in(self, namespace: str) -> Claims:
        return Claims(self._namespaces(namespace).store)

    async def create_stream(self, request: pb.CreateStreamRequest) -> pb.CreateStreamResponse:
        """Create a stream.

        Raises StreamExistsError, NoSuchNamespaceError, InvalidArgumentError, LimitExceededError.
        """
        policy = decode_policy(request.policy) if request.HasField("policy") else None
        namespace = self._namespaces(request.namespace)
        await self._quotas.check_new_streams(namespace, request.namespace)
        await namespace.create_stream(request.stream, policy)
        home = request.home_region or self._membership.own_member.region
        if home:
            await self._claims_in(request.namespace).set_home(
                request.namespace, request.stream, home
            )
        return pb.CreateStreamResponse()

    async def delete_stream(self, request: pb.DeleteStreamRequest) -> pb.DeleteStreamResponse:
        """Delete a stream. Raises NoSuchStreamError."""
        namespace = self._namespaces(request.namespace)
        await namespace.delete_stream(request.stream, identity=request.identity or None)
        await self._claims_in(request.namespace).delete_home(request.namespace, request.stream)
        with suppress(RhumblineError):  # the balancer removes what is left
            await forget_deleted(namespace.store, request.namespace, request.stream)
        return pb.DeleteStreamResponse()

    async def list_streams(self, request: pb.ListStreamsRequest) -> pb.ListStreamsResponse:
        """List a page of stream names."""
        limit = min(max(request.limit, 0) or LIST_LIMIT, LIST_LIMIT)
        found = await self._namespaces(request.namespace).streams(
            request.prefix, after=request.after or None, limit=limit
        )
        return pb.ListStreamsResponse(streams=found)

    async def describe_stream(self, request: pb.DescribeStreamRequest) -> pb.DescribeStreamResponse:
        """Describe a stream. Raises NoSuchStreamError."""
        description = await self._namespaces(request.namespace).describe(request.stream)
        if description.metadata_age_ms is not None:
            return encode_description(description, "")  # the home region is not known either
        home = await self._claims_in(request.namespace).home(request.namespace, request.stream)
        best = await self._preferred(request.namespace, request.stream, home)
        return encode_description(description, home, best)

    async def _preferred(self, namespace: str, stream: str, home: str) -> str:
        """Return the address of the proxy that should serve a stream; "" if it is not known here.

        Raises MetadataUnavailableError.
        """
        try:
            store = await self._stores.of(namespace)
        except NotOwnerError as elsewhere:  # it is in a store in which this proxy is not registered
            return elsewhere.owner
        best = store.routing.preferred(stream_key(namespace, stream), home)
        return "" if best is None else best.address

    async def truncate_stream(self, request: pb.TruncateStreamRequest) -> pb.TruncateStreamResponse:
        """Truncate a stream. Raises NoSuchStreamError, InvalidArgumentError."""
        start = await self._namespaces(request.namespace).truncate(
            request.stream, decode_position(request.position)
        )
        return pb.TruncateStreamResponse(start=encode_position(start))

    async def untruncate_stream(
        self, request: pb.UntruncateStreamRequest
    ) -> pb.UntruncateStreamResponse:
        """Take a truncation back.

        Raises NoSuchStreamError, TruncatedError, InvalidArgumentError.
        """
        position = decode_position(request.position) if request.HasField("position") else None
        start = await self._namespaces(request.namespace).untruncate(request.stream, position)
        return pb.UntruncateStreamResponse(start=encode_position(start))

    async def end_stream(self, request: pb.EndStreamRequest) -> pb.EndStreamResponse:
        """End a stream. Raises NotOwnerError, NoSuchStreamError, and what appending raises."""
        writes = self._require_writes()
        await writes.end_stream(request.namespace, request.stream, tried=tuple(request.tried))
        return pb.EndStreamResponse()

    async def find_end(self, request: pb.FindEndRequest) -> pb.FindEndResponse:
        """Return the end of a stream. Raises NoSuchStreamError, UnavailableError."""
        end = await self._namespaces(request.namespace).end(
            request.stream, fresh=not request.may_be_old
        )
        return pb.FindEndResponse(position=encode_position(end))

    async def seal_stream(self, request: pb.SealStreamRequest) -> pb.SealStreamResponse:
        """Seal a stream. Raises NoSuchStreamError, and what recovery raises."""
        await self._namespaces(request.namespace).seal(request.stream)
        return pb.SealStreamResponse()

    async def unseal_stream(self, request: pb.UnsealStreamRequest) -> pb.UnsealStreamResponse:
        """Unseal a stream. Raises NoSuchStreamError."""
        was_sealed = await self._namespaces(request.namespace).unseal(request.stream)
        return pb.UnsealStreamResponse(was_sealed=was_sealed)

    async def roll_stream(self, request: pb.RollStreamRequest) -> pb.RollStreamResponse:
        """Complete the segments of a stream. Raises NoSuchStreamError, what recovery raises."""
        await self._namespaces(request.namespace).take_over(request.stream)
        return pb.RollStreamResponse()

    async def read_schemas(self, request: pb.ReadSchemasRequest) -> pb.ReadSchemasResponse:
        """Return the schemas of a stream. Raises NoSuchStreamError."""
        history = await self._namespaces(request.namespace).schemas.read(request.stream)
        return pb.ReadSchemasResponse(history=encode_schemas(history))

    async def replace_schemas(self, request: pb.ReplaceSchemasRequest) -> pb.ReplaceSchemasResponse:
        """Replace the schemas of a stream (rule STR-48).

        Raises NoSuchStreamError, InvalidArgumentError.
        """
        was_replaced = await self._namespaces(request.namespace).schemas.replace(
            request.stream, decode_schemas(request.before), decode_schemas(request.after)
        )
        return pb.ReplaceSchemasResponse(was_replaced=was_replaced)

    async def set_policy(self, request: pb.SetPolicyRequest) -> pb.SetPolicyResponse:
        """Set the policy of a stream or a namespace.

        Raises NoSuchStreamError, NoSuchNamespaceError, InvalidArgumentError.
        """
        policy = decode_policy(request.policy) if request.HasField("policy") else None
        namespace = self._namespaces(request.namespace)
        if request.stream:
            await namespace.set_stream_policy(request.stream, policy)
        elif policy is None:
            raise InvalidArgumentError("policy is required for a namespace")
        else:
            await namespace.set_policy(policy)
        return pb.SetPolicyResponse()

    async def set_home_region(self, request: pb.SetHomeRegionRequest) -> pb.SetHomeRegionResponse:
        """Set a home region. Raises NoSuchStreamError, InvalidArgumentError."""
        await self._namespaces(request.namespace).describe(request.stream)
        await self._claims_in(request.namespace).set_home(
            request.namespace, request.stream, request.region
        )
        return pb.SetHomeRegionResponse()

    async def set_accepting(self, request: pb.SetAcceptingRequest) -> pb.SetAcceptingResponse:
        """Set whether this proxy accepts new streams. Raises MetadataError."""
        for store in self._stores.all:
            await store.membership.set_accepting(request.is_accepting)
        return pb.SetAcceptingResponse(
            stream_count=self._writes.stream_count if self._writes is not None else 0
        )

    def _require_writes(self) -> WriteProxy:
        if self._writes is None:
            others = [m for m in self._membership.members(WRITE) if m.is_accepting]
            raise NotOwnerError("not a write proxy", others[0].address if others else "")
        return self._writes

    async def get_owner(self, request: pb.GetOwnerRequest) -> pb.GetOwnerResponse:
        """Return the owner of a stream. Raises MetadataUnavailableError, NotOwnerError."""
        claims = self._claims_in(request.namespace)
        claim = await claims.owner(request.namespace, request.stream)
        home = await claims.home(request.namespace, request.stream)
        store = await self._stores.of(request.namespace)
        best = store.routing.preferred(stream_key(request.namespace, request.stream), home)
        return pb.GetOwnerResponse(
            owner=claim.address if claim is not None else "",
            preferred_owner=best.address if best is not None else "",
            home_region=home,
        )

    async def release_stream(self, request: pb.ReleaseStreamRequest) -> pb.ReleaseStreamResponse:
        """Release a stream if this proxy serves it."""
        was_owned = False
        if self._writes is not None:
            was_owned = await self._writes.release(request.namespace, request.stream)
        return pb.ReleaseStreamResponse(was_owned=was_owned)

    async def describe_namespace(
        self, request: pb.DescribeNamespaceRequest
    ) -> pb.DescribeNamespaceResponse:
        """Describe a namespace. Raises NoSuchNamespaceError."""
        policy = await self._namespaces(request.namespace).policy()
        return pb.DescribeNamespaceResponse(policy=encode_policy(policy))

    async def list_proxies(self, request: pb.ListProxiesRequest) -> pb.ListProxiesResponse:
        """List the registered proxies, as this one has read them last."""
        memberships = [store.membership for store in self._stores.all]
        load_of = await self._loads.read() if request.with_load else unknown_load
        return encode_proxies(memberships, request.viewer_region, load_of)

    async def describe_home(self, request: pb.DescribeHomeRequest) -> pb.DescribeHomeResponse:
        """Return from where a stream is written.

        Raises NoSuchStreamError, NoSuchObjectError if no proxy owns it, NotOwnerError,
        MetadataUnavailableError.
        """
        writes = self._require_writes()
        found = writes.find_served(request.namespace, request.stream)
        if found is None or self._homes is None:
            claim = await self._claims_in(request.namespace).owner(
                request.namespace, request.stream
            )
            if claim is not None:
                raise NotOwnerError(
                    f"stream {request.stream} is owned by {claim.address}", claim.address
                )
            await self._namespaces(request.namespace).describe(request.stream)
            raise NoSuchObjectError(
                f"no proxy owns stream {request.stream}: nothing was appended through one lately"
            )
        origins = await self._homes.origins(found)
        own_member = self._membership.own_member
        return pb.DescribeHomeResponse(
            home_region=origins.home,
            owner=own_member.address,
            owner_region=own_member.region,
            rates=[
                pb.RegionRate(region=region, records_per_s=rate)
                for region, rate in origins.rates.items()
            ],
            observed_ms=origins.observed_ms,
            suggested_region=origins.advice.region,
            reason=origins.advice.reason,
        )
