"""Simulated runs that follow a script, a coroutine that drives the run, and are then checked."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from rhumbline.chaos.checker.judge import judge
from rhumbline.chaos.checker.run_record import RunRecord
from rhumbline.chaos.simulation.world.sim_world import SimWorld

R = TypeVar("R", bound="ScriptedRun")


class ScriptedRun(Protocol):
    """A run that can play a script."""

    def play_script(self, script: Any) -> Coroutine[Any, Any, None]:  # noqa: ANN401 - of its own run
        """Start the cluster, play the script, and verify the end state."""
        ...

    def record(self) -> RunRecord:
        """Return the record of the run for the checker."""
        ...


def play_and_check(
    world: SimWorld, run: R, script: Callable[[R], Awaitable[None]], *, time_limit_s: float
) -> None:
    """Play the script and assert that no invariant is violated; print the trace on failure."""
    try:
        world.run(run.play_script(script), time_limit_s=time_limit_s)
    except BaseException:
        print("\n".join(world.trace.lines[-60:]))
        raise
    assert [str(violation) for violation in judge(run.record())] == []
