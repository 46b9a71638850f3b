"""Which alerts fired when. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from .prometheus import Alert


@dataclass
class Firing:
    """A time span in which an alert fired, in seconds since the start of the game day."""

    alert: Alert
    fired_s: float
    cleared_s: float | None = None
    """None while it fires."""


class AlertLog:
    """The spans of all alerts, from repeated observations."""

    def __init__(self) -> None:
        self.spans: list[Firing] = []
        self.expected: set[tuple[str, str]] = set()
        """(name, subject) of the alerts that fired before the first step."""

    def observe(self, now_s: float, alerts: Iterable[Alert]) -> tuple[list[Alert], list[Alert]]:
        """Note the alerts that fire now; return those that began to fire, and those that ended."""
        firing = {_key(alert): alert for alert in alerts}
        open_spans = {_key(span.alert): span for span in self.firing()}
        began = [alert for key, alert in firing.items() if key not in open_spans]
        ended = [span for key, span in open_spans.items() if key not in firing]
        for span in ended:
            span.cleared_s = now_s
        self.spans += [Firing(alert, now_s) for alert in began]
        return began, [span.alert for span in ended]

    def firing(self) -> list[Firing]:
        """Return the spans that have not ended."""
        return [span for span in self.spans if span.cleared_s is None]

    def accept_firing(self) -> None:
        """Expect the alerts that fire now for the rest of the day."""
        self.expected = {_key(span.alert) for span in self.firing()}

    def is_calm(self) -> bool:
        """Return whether no alert fires but the expected ones."""
        return all(_key(span.alert) in self.expected for span in self.firing())

    def fires(self, name: str) -> bool:
        """Return whether an alert of this name fires."""
        return any(span.alert.name == name for span in self.firing())

    def since(self, began_s: float, ended_s: float) -> list[Firing]:
        """Return the spans that began in this time."""
        return [span for span in self.spans if began_s <= span.fired_s < ended_s]


def _key(alert: Alert) -> tuple[str, str]:
    return alert.name, alert.subject
