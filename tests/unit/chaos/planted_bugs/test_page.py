"""The page of planted bugs keeps the rows of bugs that were not hunted again."""

from rhumbline.chaos.planted_bugs.page import page
from rhumbline.chaos.planted_bugs.runner import Budget, HuntResult

FOUND = HuntResult("b1", "a title", "races", 7, 3.0, ("L14",), 7, "races")
NOT_FOUND = HuntResult("b2", "another title", "races", 300, 90.0)
BY_DEFAULT = HuntResult("b2", "another title", "everything", 120, 61.4, ("L14",), 9, "changes")


def test_rows_of_a_hunt_replace_those_of_the_same_bugs_only() -> None:
    whole = page([FOUND, NOT_FOUND], Budget())
    again = page(
        [HuntResult("b2", "another title", "races", 5, 1.0, ("L1",), 5, "races")], Budget(), whole
    )
    assert "1 of 2 are found" in whole
    assert "2 of 2 are found" in again
    assert "| b1 | a title | `races` | L14 | 7 | `NAME=b1 SEED=7` |" in again
    assert "| b2 | another title | `races` | L1 | 5 | `NAME=b2 SEED=5` |" in again
    assert again.index("| b1 |") < again.index("| b2 |")


def test_hunts_in_the_default_run_have_a_table_of_their_own() -> None:
    whole = page([BY_DEFAULT], Budget(), page([FOUND, NOT_FOUND], Budget()))
    assert "| b2 | L14 | seed 9 of `changes` | 120 | 61 |" in whole
    assert "| b2 | another title | `races` | **not found** | none in 300 |  |" in whole
    assert page([], Budget(), whole) == whole


def test_times_to_find_follow_from_the_other_pages() -> None:
    simulator = "| `races` | 3,600 | 50 | 4.0% | 12 |\n"
    whole = page([FOUND], Budget(), simulator=simulator)
    assert whole.count("## Time to find") == 1
    assert "| b1 | seed 7 of `races` | " in whole
    assert page([], Budget(), whole, simulator=simulator) == whole
