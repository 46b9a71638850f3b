"""Options that set the policy of a stream, for ``create`` and ``set-policy``."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any

import click

from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.bookie_id import check_region
from ...core.protocol.compression import Codec
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.placement import BookieInfo, in_regions
from ...core.protocol.quorum import Quorum
from ...placement.layouts import best_layouts
from ...regions.repair.liveness import by_region
from ..errors import UnsafeError
from ..units import parse_bytes, parse_ms, show_bytes, show_ms

Command = Callable[..., Any]

_QUORUM = re.compile(r"(\d{1,3})/(\d{1,3})/(\d{1,3})(?:/R?(\d{1,3}))?")
_REPLICAS = 3
_DEFAULT_REPLICAS_MAX = 9
_ACKS = 2


@dataclass(frozen=True, slots=True)
class _Option:
    """An option that sets one field of a policy."""

    field: str
    parse: Callable[[str], object]
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The policy options that the user gave; None or False if an option was not given."""

    quorum: str | None
    unsafe_ack_1: bool
    flush: str | None
    flush_bytes: str | None
    texts: dict[str, str]
    """The strings of the other options that were given, by policy field."""

    @property
    def is_any_given(self) -> bool:
        """True if at least one option was given."""
        return any(getattr(self, f.name) for f in fields(self))

    @property
    def allowed_regions(self) -> tuple[str, ...]:
        """The given regions; () for all. Raises InvalidArgumentError."""
        return parse_regions(self.texts.get("regions", "all"))

    def apply_to(self, policy: StreamPolicy) -> StreamPolicy:
        """Return ``policy`` with the given options applied.

        Raises InvalidArgumentError, UnsafeError.
        """
        changes: dict[str, Any] = {}
        if self.quorum:
            changes["quorum"] = parse_quorum(self.quorum, allow_ack_1=self.unsafe_ack_1)
        if self.flush or self.flush_bytes:
            changes["flush"] = _flush(policy.flush, self.flush, self.flush_bytes)
        for option in _FIELD_OPTIONS.values():
            if option.field in self.texts:
                changes[option.field] = option.parse(self.texts[option.field])
        return replace(policy, **changes)


def parse_regions(text: str) -> tuple[str, ...]:
    """Parse ``eu,us``, or ``all`` for (). Raises InvalidArgumentError."""
    if text.strip() == "all":
        return ()
    return tuple(check_region(name.strip()) for name in text.split(","))


def _parse_limit(text: str) -> int | None:
    return None if text == "none" else parse_ms(text)


_CODECS = tuple(codec.name.lower() for codec in Codec)
_FIELD_OPTIONS = {
    "codec": _Option("codec", lambda text: Codec[text.upper()], "Compression.", _CODECS),
    "record-bytes-max": _Option("record_bytes_max", parse_bytes, "Maximum record size."),
    "roll-bytes": _Option(
        "roll_bytes", parse_bytes, "Segment size after which a new segment starts."
    ),
    "roll-time": _Option("roll_ms", parse_ms, "Segment age after which a new segment starts."),
    "keepalive": _Option(
        "keepalive_ms",
        _parse_limit,
        "Interval of keepalives of an idle writer; none: no keepalives.",
    ),
    "retention": _Option(
        "retention_ms", _parse_limit, "Age after which segments are truncated; none: never."
    ),
    "hot-retention": _Option(
        "hot_retention_ms",
        _parse_limit,
        "Age after which archived segments are deleted from the bookies; none: never.",
    ),
    "regions": _Option(
        "regions",
        parse_regions,
        "Regions that may store the data, the home region first: eu,us; or all.",
    ),
}
"""Options that set one field each, by name."""

_OTHER_OPTIONS = (
    click.option("--quorum", help="E/WQ/AQ/R: bookies, copies, acks, regions, e.g. 3/3/2/2."),
    click.option("--unsafe-ack-1", is_flag=True, help="Allow AQ=1 with several copies."),
    click.option("--flush", help="immediate, or the longest time to buffer a record, e.g. 10ms."),
    click.option("--flush-bytes", help="Buffer size at which it is flushed immediately."),
)


def policy_options(command: Command) -> Command:
    """Add the policy options; they are passed to the command as ``policy``."""

    @wraps(command)
    def wrapped(*args: object, **arguments: Any) -> object:  # noqa: ANN401 - click's own
        given = {option.field: arguments.pop(option.field) for option in _FIELD_OPTIONS.values()}
        options = PolicyOptions(
            quorum=arguments.pop("quorum"),
            unsafe_ack_1=arguments.pop("unsafe_ack_1"),
            flush=arguments.pop("flush"),
            flush_bytes=arguments.pop("flush_bytes"),
            texts={field: text for field, text in given.items() if text},
        )
        return command(*args, policy=options, **arguments)

    for name, option in reversed(_FIELD_OPTIONS.items()):
        kind = click.Choice(option.choices) if option.choices else None
        wrapped = click.option(f"--{name}", option.field, type=kind, help=option.help)(wrapped)
    for other in reversed(_OTHER_OPTIONS):
        wrapped = other(wrapped)
    return wrapped


def parse_quorum(text: str, *, allow_ack_1: bool) -> Quorum:
    """Parse ``3/3/2/2`` or ``3/3/2/R2``; the default of R is 1.

    Raises InvalidArgumentError, UnsafeError.
    """
    match = _QUORUM.fullmatch(text.strip())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is not a quorum; write E/WQ/AQ/R, e.g. 3/3/2/2")
    e, wq, aq, r = (int(part or 1) for part in match.groups())
    quorum = Quorum(e, wq, aq, r)
    if aq == 1 and wq > 1 and not allow_ack_1:
        raise UnsafeError(
            f"{text}: with AQ=1 an acknowledged entry is lost if its only bookie is lost; "
            "use AQ=2, or give --unsafe-ack-1"
        )
    return quorum


def default_quorum(bookies: Sequence[BookieInfo], allowed: Sequence[str] = ()) -> Quorum:
    """Return the default quorum for these bookies.

    It has one copy per region (at least three copies), acknowledged by a majority of the regions,
    as far as the bookies permit. ``bookies`` are all configured ones, up or down; only those in the
    ``allowed`` regions count (() for all).
    """
    usable = in_regions(bookies, allowed)
    counts = by_region(usable)
    regions = len([name for name in counts if name is not None])
    majority = regions // 2 + 1 if regions > 1 else 1
    copies = max(1, min(max(_REPLICAS, regions), _DEFAULT_REPLICAS_MAX, len(usable)))
    acks = min(max(_ACKS, majority), copies)
    for min_regions in range(min(acks, majority), 1, -1):
        quorum = Quorum(copies, copies, acks, min_regions)
        if best_layouts(quorum, counts, None):
            return quorum
    return Quorum(copies, copies, acks, 1)


def describe_policy(policy: StreamPolicy) -> dict[str, Any]:
    """Return a policy as printable values, named like the options."""
    flush = policy.flush
    period = {0: "immediate", None: "by bytes alone"}.get(flush.period_ms)
    return {
        "quorum": str(policy.quorum),
        "flush": f"{period or show_ms(flush.period_ms or 0)}, at {show_bytes(flush.bytes_max)}",
        "codec": policy.codec.name.lower(),
        "record max": show_bytes(policy.record_bytes_max),
        "roll": f"after {show_bytes(policy.roll_bytes)} or {show_ms(policy.roll_ms)}",
        "keepalive": _age(policy.keepalive_ms),
        "retention": _age(policy.retention_ms),
        "hot retention": _age(policy.hot_retention_ms),
        "regions": ", ".join(policy.regions) or "all",
    }


def _age(limit_ms: int | None) -> str:
    return "none" if limit_ms is None else show_ms(limit_ms)


def _flush(flush: FlushPolicy, period: str | None, size: str | None) -> FlushPolicy:
    changes: dict[str, Any] = {}
    if period:
        changes["period_ms"] = 0 if period == "immediate" else parse_ms(period)
    if size:
        changes["bytes_max"] = parse_bytes(size)
    return replace(flush, **changes)
