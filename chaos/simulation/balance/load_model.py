"""The load of the model's streams: skewed by Zipf's law, noisy, bursting and shifting."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class LoadShape:
    """The load of all streams together, and its changes."""

    streams: int = 5_000
    zipf_exponent: float = 0.7
    """The load of a stream is proportional to its rank to the power of minus this."""
    total: float = 200_000.0
    """Record sets per second of all streams."""
    noise: float = 0.2
    """Largest share by which a measured rate differs from the true one."""
    shift_s: int = 600
    """Every so many seconds some streams exchange their ranks; 0: never."""
    shift_share: float = 0.1
    """Share of the streams, drawn by their load, whose ranks change in a shift."""
    bursting_share: float = 0.02
    """Share of streams that are ten times hotter for every second half minute; streams whose rate
    is above five times the mean do not burst."""


class LoadModel:
    """The true rates of the streams over time, from a seed."""

    def __init__(self, shape: LoadShape, random: Random) -> None:
        self._shape = shape
        self._random = random
        weights = [rank**-shape.zipf_exponent for rank in range(1, shape.streams + 1)]
        scale = shape.total / sum(weights)
        self._rates = [weight * scale for weight in weights]
        random.shuffle(self._rates)
        count = int(shape.streams * shape.bursting_share)
        self._bursting = random.sample(range(shape.streams), count)

    def advance(self, second: int) -> bool:
        """Shift the load if it is due. Returns whether it was shifted."""
        shape = self._shape
        if not shape.shift_s or second == 0 or second % shape.shift_s:
            return False
        chosen = self._random.choices(
            range(shape.streams), self._rates, k=int(shape.streams * shape.shift_share)
        )
        for index in dict.fromkeys(chosen):
            other = self._random.randrange(shape.streams)
            rates = self._rates
            rates[index], rates[other] = rates[other], rates[index]
        return True

    def rates(self, second: int) -> list[float]:
        """Return the true rate of each stream in record sets per second."""
        rates = list(self._rates)
        if second // 30 % 2:
            hot = 5 * self._shape.total / self._shape.streams
            for index in self._bursting:
                rates[index] *= 10 if rates[index] <= hot else 1
        return rates

    def measured(self, rates: list[float]) -> list[float]:
        """Return the rates with noise, as a proxy measures them in one interval."""
        noise, random = self._shape.noise, self._random.random
        return [rate * (1 + noise * (2 * random() - 1)) for rate in rates]
