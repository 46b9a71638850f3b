"""The namespaces that store more bytes than their quota allows (rule SEC-31)."""

from collections.abc import Mapping

from ...core.protocol.errors import LimitExceededError
from ...security.quotas import QuotaTable, SubjectKind


class FullNamespaces:
    """The namespaces to which nothing is appended until some of their data is deleted."""

    def __init__(self) -> None:
        self._full: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        """Return the number of full namespaces."""
        return len(self._full)

    def replace(self, table: QuotaTable, stored_bytes: Mapping[str, int]) -> None:
        """Judge the namespaces by their quotas, and by what they store."""
        self._full = {
            name: (count, quota.stored_bytes)
            for name, count in stored_bytes.items()
            if (quota := table.find(SubjectKind.NAMESPACE, name)) is not None
            and quota.stored_bytes is not None
            and count >= quota.stored_bytes
        }

    def refusal(self, namespace: str) -> LimitExceededError | None:
        """Return why nothing may be appended to a namespace; None if it may."""
        if namespace not in self._full:
            return None
        count, allowed = self._full[namespace]
        return LimitExceededError(
            f"namespace:{namespace} exceeds its quota stored_bytes: it stores {count} bytes of at "
            f"most {allowed}; truncate or delete streams"
        )
