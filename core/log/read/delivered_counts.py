"""The count of the records that the readers of a process have delivered."""


class DeliveredCounts:
    """A counter that all readers of a process share."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = 0
        """Number of records that were handed to the application."""
