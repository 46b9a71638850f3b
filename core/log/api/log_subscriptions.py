"""The interface of the subscriptions of a namespace: named positions that only move forward."""

from typing import Protocol

from ...protocol.dlsn import Dlsn
from ..metadata.acknowledgements import Acknowledgements
from ..metadata.subscriptions import Subscription


class LogSubscriptions(Protocol):
    """The subscriptions of the streams of one namespace (rule STR-24)."""

    async def create(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """Create a subscription at ``position``, or return the existing one.

        Raises NoSuchStreamError, InvalidPositionError if the position is of another stream.
        """
        ...

    async def read(self, stream: str, name: str) -> Subscription:
        """Return the stored position. Raises NoSuchSubscriptionError."""
        ...

    async def commit(self, subscription: Subscription, stream: str, position: Dlsn) -> Subscription:
        """Move the position forward to ``position``, never back. Safe to repeat.

        Raises NoSuchSubscriptionError, InvalidPositionError if the position is of another stream,
        and InvalidArgumentError if the subscription was reset after ``subscription`` was read.
        """
        ...

    async def take_over(self, stream: str, name: str, owner: str) -> Subscription:
        """Make the consumer ``owner`` the only one that may store acknowledgements.

        Returns what earlier consumers stored. Safe to repeat. Raises NoSuchSubscriptionError.
        """
        ...

    async def store(
        self,
        subscription: Subscription,
        stream: str,
        position: Dlsn,
        acknowledgements: Acknowledgements,
    ) -> Subscription:
        """Move the position forward and store acknowledgements above it. Safe to repeat.

        Raises SubscriptionLostError if another consumer took ``subscription`` over or it was reset,
        and NoSuchSubscriptionError.
        """
        ...

    async def reset(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """Set the position to any value. Commits of readers that began before the reset fail.

        Raises NoSuchSubscriptionError, InvalidPositionError if the position is of another stream.
        """
        ...

    async def delete(self, stream: str, name: str) -> None:
        """Delete a subscription. Raises NoSuchSubscriptionError."""
        ...

    async def names(
        self, stream: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Return a page of names that follow ``after``, in order."""
        ...

    async def slowest(self, stream: str) -> Dlsn | None:
        """Return the lowest stored position; None if there are no subscriptions."""
        ...
