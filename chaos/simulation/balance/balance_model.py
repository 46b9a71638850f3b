"""Simulates the balance of many write proxies: decisions by ``BalanceRounds``, modelled loads.

A step of the model is one round. In each the proxies measure and report, the balancer decides, and
the assigned streams move before the next round. For comparison the same load is also placed by
rendezvous hashing alone. The model verifies the promises of the decision (rules PRX-40, PRX-41).
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from random import Random

from ....proxies.balance.assignments import EMPTY, TABLE_BYTES_MAX
from ....proxies.balance.balance_plan import BalanceLimits, StreamMove, imbalance
from ....proxies.balance.balance_rounds import BalanceRounds
from ....proxies.balance.load_report import BusyStream, LoadReport, hottest, rounded
from ....proxies.rendezvous import preference
from .load_model import LoadModel, LoadShape

_AVERAGE_S = 15.0
RETURN_S = 600
"""A stream that returns to a proxy within this time has oscillated."""


@dataclass(frozen=True, slots=True)
class BalanceScenario:
    """The proxies, the load and the faults of one simulation."""

    proxies: int = 100
    seconds: int = 3_600
    round_s: int = 5
    shape: LoadShape = field(default_factory=LoadShape)
    limits: BalanceLimits = BalanceLimits(25, 60_000, 16)
    lost: tuple[tuple[int, int, int], ...] = ()
    """(proxy, from, until): proxies that are down, in seconds."""
    drained: tuple[tuple[int, int, int], ...] = ()
    pinned: int = 0
    """Number of streams, the hottest ones, that an operator has pinned."""


@dataclass(slots=True)
class BalanceResult:
    """The course of a simulation, one value for each round, and what it violated."""

    scenario: BalanceScenario
    balanced: list[float] = field(default_factory=list)
    """Highest load of a proxy divided by the mean."""
    hashed: list[float] = field(default_factory=list)
    """The same if all streams stay where rendezvous hashing puts them."""
    bound: list[float] = field(default_factory=list)
    """The hottest stream divided by the mean: no placement is better."""
    avoidable: list[float] = field(default_factory=list)
    """As ``balanced``, but the load of a proxy is divided by that of its hottest stream if this is
    above the mean: 1 if such a stream has a proxy of its own."""
    hashed_avoidable: list[float] = field(default_factory=list)
    """The same by rendezvous hashing alone."""
    moves: list[int] = field(default_factory=list)
    """Streams moved because of the load."""
    shifts: list[int] = field(default_factory=list)
    """Seconds at which the load shifted."""
    moved_streams: int = 0
    """Streams that moved at least once."""
    most_moves: int = 0
    """Moves of the stream that moved most."""
    returns: int = 0
    """Moves of a stream to a proxy that it had left less than ``RETURN_S`` before."""
    shortest_stay_s: int | None = None
    """Shortest time between two moves of a stream because of the load."""
    assigned: int = 0
    """Assignments at the end."""
    table_bytes: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def total_moves(self) -> int:
        """Streams moved because of the load, in all rounds. Each is one pause of its stream."""
        return sum(self.moves)


class _ModelStream:
    """A stream of the model: its owner, and its average load there."""

    __slots__ = ("key", "left", "load", "moved_at", "moves", "order", "owner", "taken_at", "weight")

    def __init__(self, key: str, order: list[int]) -> None:
        self.key = key
        self.order = order
        self.owner = order[0]
        self.taken_at = -3_600
        self.load = 0.0
        self.weight = 0.0
        self.moves = 0
        self.moved_at: int | None = None
        self.left: deque[tuple[int, int]] = deque(maxlen=8)

    def take(self, owner: int, second: int) -> None:
        """Give the stream another owner, which begins a new average."""
        self.owner, self.taken_at = owner, second
        self.load = self.weight = 0.0


def simulate(scenario: BalanceScenario, seed: int = 1) -> BalanceResult:
    """Run a scenario from a seed."""
    return _Simulation(scenario, seed).run()


class _Simulation:
    def __init__(self, scenario: BalanceScenario, seed: int) -> None:
        self.scenario = scenario
        self.result = BalanceResult(scenario)
        self.loads = LoadModel(scenario.shape, Random(f"{seed} balance"))
        self.addresses = [f"proxy-{number:03}:4281" for number in range(scenario.proxies)]
        self.numbers = {address: number for number, address in enumerate(self.addresses)}
        self.streams = [
            self._stream(f"default/stream-{n:05}") for n in range(scenario.shape.streams)
        ]
        self.by_key = {stream.key: stream for stream in self.streams}
        self.default: list[int] = []
        """The owner of each stream by rendezvous hashing among ``default_among``."""
        self.default_among: Sequence[int] = ()
        self.rounds = BalanceRounds(scenario.limits)
        rates = self.loads.rates(0)
        order = sorted(range(len(rates)), key=lambda index: -rates[index])
        self.table = EMPTY
        for index in order[: scenario.pinned]:
            stream = self.streams[index]
            self.table = self.table.with_pin(stream.key, self.addresses[stream.owner])

    def _stream(self, key: str) -> _ModelStream:
        return _ModelStream(key, [self.numbers[one] for one in preference(key, self.addresses)])

    def run(self) -> BalanceResult:
        scenario = self.scenario
        for second in range(0, scenario.seconds, scenario.round_s):
            if self.loads.advance(second):
                self.result.shifts.append(second)
            up = [n for n in range(scenario.proxies) if not _is_in(scenario.lost, n, second)]
            accepting = [n for n in up if not _is_in(scenario.drained, n, second)]
            self._place(accepting, second)
            rates = self.loads.rates(second)
            self._record(rates, accepting)
            reports = self._reports(self.loads.measured(rates), up, second)
            self._balance(reports, up, accepting, second)
        self._sum_up()
        return self.result

    def _place(self, accepting: Sequence[int], second: int) -> None:
        """Move each stream to its assigned owner, or else to the first that accepts streams."""
        if self.default_among != accepting:
            may_own = dict.fromkeys(accepting)
            self.default_among = accepting
            self.default = [
                next(number for number in stream.order if number in may_own)
                for stream in self.streams
            ]
        assigned = self.table.addresses()
        for stream, default in zip(self.streams, self.default, strict=True):
            owner = default
            if stream.key in assigned:
                owner = self.numbers[assigned[stream.key]]
                owner = owner if owner in accepting else default
            if owner != stream.owner:
                stream.take(owner, second)

    def _record(self, rates: Sequence[float], accepting: Sequence[int]) -> None:
        mean = sum(rates) / len(accepting)
        owners = [stream.owner for stream in self.streams]
        self.result.bound.append(max(1.0, max(rates) / mean))
        for placed, highest, avoidable in (
            (owners, self.result.balanced, self.result.avoidable),
            (self.default, self.result.hashed, self.result.hashed_avoidable),
        ):
            loads, hottest_rates = dict.fromkeys(accepting, 0.0), dict.fromkeys(accepting, mean)
            for owner, rate in zip(placed, rates, strict=True):
                loads[owner] += rate
                if rate > hottest_rates[owner]:
                    hottest_rates[owner] = rate
            highest.append(imbalance(loads.values()))
            avoidable.append(max(loads[number] / hottest_rates[number] for number in accepting))

    def _reports(self, rates: Sequence[float], up: Sequence[int], second: int) -> list[LoadReport]:
        """Return the reports that the proxies publish, from averages as in ``LoadMeter``."""
        share = 1.0 - exp(-self.scenario.round_s / _AVERAGE_S)
        hot: dict[int, list[BusyStream]] = {number: [] for number in up}
        for stream, rate in zip(self.streams, rates, strict=True):
            stream.load += share * (rate - stream.load)
            stream.weight += share * (1.0 - stream.weight)
            held_ms = 1000 * (second + self.scenario.round_s - stream.taken_at)
            hot[stream.owner].append(BusyStream(stream.key, stream.load / stream.weight, held_ms))
        return [
            LoadReport(
                str(number),
                self.addresses[number],
                "east",
                rounded(sum([stream.load for stream in streams])),
                len(streams),
                0.0,
                0.0,
                0,
                0,
                hottest(streams),
            )
            for number, streams in hot.items()
        ]

    def _balance(
        self,
        reports: Sequence[LoadReport],
        up: Sequence[int],
        accepting: Sequence[int],
        second: int,
    ) -> None:
        decision = self.rounds.decide(
            reports,
            self.table,
            members={self.addresses[number] for number in up},
            accepting={self.addresses[number] for number in accepting},
        )
        self.rounds.ordered(decision.moves)
        self.table = decision.table
        self.result.moves.append(len(decision.moves))
        if len(decision.moves) > self.scenario.limits.moves_max:
            self._violated(second, f"{len(decision.moves)} moves in one round")
        if self.table.size_bytes > TABLE_BYTES_MAX:
            self._violated(second, f"the table has {self.table.size_bytes} bytes")
        for move in decision.moves:
            self._check(move, accepting, second + self.scenario.round_s)

    def _check(self, move: StreamMove, accepting: Sequence[int], second: int) -> None:
        stream, target = self.by_key[move.key], self.numbers[move.target]
        if move.key in self.table.pinned:
            self._violated(second, f"pinned stream {move.key} moved")
        if target not in accepting:
            self._violated(second, f"{move.key} moved to {move.target}, which takes no streams")
        if 1000 * (second - stream.taken_at) < self.scenario.limits.stay_ms:
            self._violated(second, f"{move.key} stayed {second - stream.taken_at} s only")
        if any(proxy == target and second - at < RETURN_S for proxy, at in stream.left):
            self.result.returns += 1
        if stream.moved_at is not None:
            stay = second - stream.moved_at
            shortest = self.result.shortest_stay_s
            self.result.shortest_stay_s = stay if shortest is None else min(shortest, stay)
        stream.left.append((stream.owner, second))
        stream.moved_at = second
        stream.moves += 1

    def _violated(self, second: int, text: str) -> None:
        self.result.violations.append(f"at {second} s: {text}")

    def _sum_up(self) -> None:
        moves = Counter({stream.key: stream.moves for stream in self.streams if stream.moves})
        self.result.moved_streams = len(moves)
        self.result.most_moves = max(moves.values(), default=0)
        self.result.assigned = len(self.table.moved)
        self.result.table_bytes = self.table.size_bytes


def _is_in(intervals: Sequence[tuple[int, int, int]], proxy: int, second: int) -> bool:
    return any(number == proxy and begin <= second < end for number, begin, end in intervals)
