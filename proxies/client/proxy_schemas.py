"""The schemas of streams through proxies, with the methods of the core's ``SchemaStore``."""

from ...core.log.metadata.stream_schema import SchemaHistory, StreamSchemas
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.messages import decode_schemas, encode_schemas
from .proxy_subscriptions import CallProxy


class ProxySchemas(StreamSchemas):
    """The schemas of the streams of one namespace (rule STR-48)."""

    def __init__(self, call: CallProxy, namespace: str) -> None:
        self._call = call
        self._namespace = namespace

    async def read(self, stream: str) -> SchemaHistory:
        """See ``StreamSchemas``."""
        request = pb.ReadSchemasRequest(namespace=self._namespace, stream=stream)
        answer = await self._call(methods.READ_SCHEMAS, request, pb.ReadSchemasResponse)
        return decode_schemas(answer.history)

    async def replace(self, stream: str, before: SchemaHistory, after: SchemaHistory) -> bool:
        """See ``StreamSchemas``."""
        request = pb.ReplaceSchemasRequest(
            namespace=self._namespace,
            stream=stream,
            before=encode_schemas(before),
            after=encode_schemas(after),
        )
        answer = await self._call(methods.REPLACE_SCHEMAS, request, pb.ReplaceSchemasResponse)
        return answer.was_replaced
