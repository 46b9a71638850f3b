"""The calls about the namespaces of a cluster, which any proxy serves (rule PRX-23)."""

from ...core.log.api.log_namespaces import LogNamespaces
from ...core.protocol.bookie_id import check_region
from ...core.protocol.errors import InvalidArgumentError, RefusedError
from ..rpc import rhumbline_pb2 as pb
from ..rpc.messages import decode_policy
from .topic_administration import page_size


class NamespaceAdministration:
    """Serves one request per call; errors are raised as RhumblineError."""

    def __init__(self, namespaces: LogNamespaces | None) -> None:
        """Without ``namespaces`` the process cannot create, list or delete any."""
        self._found = namespaces

    @property
    def _namespaces(self) -> LogNamespaces:
        if self._found is None:
            raise RefusedError("this proxy does not administer namespaces")
        return self._found

    async def create_namespace(
        self, request: pb.CreateNamespaceRequest
    ) -> pb.CreateNamespaceResponse:
        """Create a namespace. Raises as ``LogNamespaces.create``."""
        if not request.HasField("policy"):
            raise InvalidArgumentError("policy is required for a namespace")
        region = check_region(request.region) if request.region else None
        await self._namespaces.create(request.namespace, decode_policy(request.policy), region)
        return pb.CreateNamespaceResponse()

    async def list_namespaces(self, request: pb.ListNamespacesRequest) -> pb.ListNamespacesResponse:
        """List a page of namespaces."""
        response = pb.ListNamespacesResponse()
        size = page_size(request.limit)
        async for listed in self._namespaces.all(after=request.after or None):
            response.namespaces.add(namespace=listed.name, region=listed.region or "")
            if len(response.namespaces) == size:
                break
        return response

    async def delete_namespace(
        self, request: pb.DeleteNamespaceRequest
    ) -> pb.DeleteNamespaceResponse:
        """Delete an empty namespace. Raises as ``LogNamespaces.delete``."""
        await self._namespaces.delete(request.namespace)
        return pb.DeleteNamespaceResponse()
