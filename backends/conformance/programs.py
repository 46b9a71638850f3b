"""Checks that random sequences of operations have the same outcome as on the memory store."""

from random import Random
from typing import TYPE_CHECKING

from .model import HANDLES, program_of, run_program

if TYPE_CHECKING:
    from .kit import World

PROGRAMS = 20
_STEPS_MAX = 40


async def random_programs_have_the_outcome_of_the_memory_store(world: "World") -> None:
    """Every result, error and final tree is that of the memory store, through two handles."""
    handles = [world.store, *[await world.open_handle() for _ in range(HANDLES - 1)]]
    for seed in range(PROGRAMS):
        random = Random(seed)
        numbers = [random.getrandbits(24) for _ in range(random.randint(8, _STEPS_MAX))]
        try:
            await run_program(program_of(numbers), handles, world.path(f"program-{seed}"))
        except AssertionError as error:
            raise AssertionError(f"program of seed {seed}: {error}") from error
