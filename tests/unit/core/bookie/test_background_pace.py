"""Background work takes a smaller share of the time while commits are late."""

import pytest

from rhumbline.core.bookie.background_pace import SHARE_MIN, BackgroundPace

USUAL_S = 0.001
LATE_S = 0.0041
"""Just above twice the usual duration and 2 ms."""


class Commits:
    """Commits of a bookie, one every 10 ms."""

    def __init__(self) -> None:
        self.pace = BackgroundPace()
        self.now_s = 100.0

    def note(
        self, took_s: float, count: int = 1, *, is_active: bool = True, size: int = 99
    ) -> None:
        for _ in range(count):
            if is_active:
                self.pace.rest_s(0.0, self.now_s)
            self.now_s += 0.01
            self.pace.note_commit(took_s, self.now_s, size)

    @property
    def share(self) -> float:
        return self.pace.share(self.now_s)


def test_late_commit_makes_the_share_smaller_and_timely_ones_let_it_grow_slowly() -> None:
    commits = Commits()
    commits.note(USUAL_S, 10, is_active=False)
    commits.note(0.0039)
    assert commits.share == 1
    commits.note(LATE_S)
    assert commits.share == pytest.approx(0.7)
    commits.note(USUAL_S, 100)
    assert commits.share == pytest.approx(0.8), "a tenth in a second"
    commits.note(LATE_S, 10)
    assert commits.share == SHARE_MIN
    commits.note(USUAL_S, 2_000)
    assert commits.share == 1


def test_background_work_takes_all_of_the_time_while_there_are_no_commits() -> None:
    commits = Commits()
    commits.note(USUAL_S, 10, is_active=False)
    commits.note(LATE_S)
    now_s = commits.now_s
    assert commits.pace.share(now_s + 0.5) == pytest.approx(0.7)
    assert commits.pace.share(now_s + 0.51) == 1
    assert commits.pace.rest_s(0.1, now_s + 0.51) == 0
    assert BackgroundPace().share(0.0) == 1


def test_rest_makes_the_work_a_share_of_the_time_up_to_a_limit() -> None:
    commits = Commits()
    commits.note(USUAL_S, 10, is_active=False)
    commits.note(LATE_S)
    assert commits.pace.rest_s(0.007, commits.now_s) == pytest.approx(0.003)
    commits.note(LATE_S, 10)
    assert commits.pace.rest_s(0.001, commits.now_s) == pytest.approx(0.019)
    assert commits.pace.rest_s(10, commits.now_s) == 0.25


def test_commits_without_background_work_are_learned_from_and_never_late() -> None:
    commits = Commits()
    commits.note(USUAL_S, is_active=False)
    commits.note(0.02, 200, is_active=False)
    assert commits.share == 1
    commits.note(0.04)
    assert commits.share == 1, "usual by now"
    commits.note(0.05)
    assert commits.share < 1


def test_single_stall_does_not_change_what_is_usual() -> None:
    commits = Commits()
    commits.note(USUAL_S, 10, is_active=False)
    commits.note(5.0, is_active=False)
    commits.note(0.006)
    assert commits.share < 1


def test_commits_beside_background_work_change_what_is_usual_slowly_unless_they_are_shorter() -> (
    None
):
    commits = Commits()
    commits.note(0.02, 10, is_active=False)
    commits.note(USUAL_S, 50)
    commits.note(LATE_S + 0.001)
    assert commits.share < 1, "the disk has become faster"
    commits.note(0.5, 20)
    commits.note(USUAL_S, 2_000)
    commits.note(0.03)
    assert commits.share < 1, "late commits are not usual"


def test_durations_are_compared_with_those_of_the_same_size() -> None:
    commits = Commits()
    for size, took_s in ((100, 0.001), (1 << 20, 0.02), (1 << 30, 0.3)):
        commits.note(took_s, 10, is_active=False, size=size)
    commits.note(0.04, size=1 << 20)
    commits.note(0.6, size=8 << 20)
    assert commits.share == 1
    commits.note(0.04, size=4_000)
    assert commits.share < 1
