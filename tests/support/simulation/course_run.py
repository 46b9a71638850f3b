"""A simulated run that follows a course of events written as code, and must keep every promise."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from rhumbline.chaos.checker.judge import judge
from rhumbline.chaos.checker.run_record import RunRecord
from rhumbline.chaos.simulation.world.sim_world import SimWorld

R = TypeVar("R", bound="CourseRun")


class CourseRun(Protocol):
    """A run that can be played so."""

    def play_course(self, course: Any) -> Coroutine[Any, Any, None]:  # noqa: ANN401 - of its own run
        """From the founding through the course to the last question."""
        ...

    def record(self) -> RunRecord:
        """All that is known of it."""
        ...


def play_to_verdict(
    world: SimWorld, run: R, course: Callable[[R], Awaitable[None]], *, time_limit_s: float
) -> None:
    """Plays the course; a failure shows the end of the trace, a broken promise is one."""
    try:
        world.run(run.play_course(course), time_limit_s=time_limit_s)
    except BaseException:
        print("\n".join(world.trace.lines[-60:]))
        raise
    assert [str(violation) for violation in judge(run.record())] == []
