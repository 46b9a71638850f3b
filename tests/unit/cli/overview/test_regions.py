"""A region is open only if a bookie of it accepts new data; nothing old is shown as present."""

import pytest

from rhumbline.cli.output_schema import faults, record
from rhumbline.cli.overview.bookies import BOOKIE_ROW, BookieMode, BookieView, for_people
from rhumbline.cli.overview.regions import DOWN, EMPTY, NO_WRITABLE, OPEN, REGION_ROW, region_rows
from rhumbline.cli.overview.status_documents import StatusDocument
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.wire.registration import FREE_BYTES, Registration
from rhumbline.regions.states import PlacementState
from rhumbline.server.server_directory import ServerRecord

EU, US = Region("eu"), Region("us")


def bookie(
    name: str = "b@00000001",
    region: Region | None = EU,
    *,
    is_up: bool = True,
    is_known: bool = True,
    is_read_only: bool = False,
    ordered: PlacementState | None = None,
    limbo: str = "",
    registered: str = "1000",
    status: StatusDocument | None = None,
    address: tuple[str, int] = ("h", 1),
) -> BookieView:
    properties = {FREE_BYTES: registered} if registered else {}
    registration = Registration(BookieId(name), *address, properties)
    return BookieView(
        BookieId(name),
        region,
        is_known,
        registration if is_up else None,
        is_read_only,
        ordered,
        limbo,
        ("h", 2),
        status or StatusDocument({"free_bytes": 26}, None),
    )


@pytest.mark.parametrize(
    ("view", "mode"),
    [
        (bookie(), BookieMode.WRITABLE),
        (bookie(is_read_only=True), BookieMode.READ_ONLY),
        (bookie(limbo="an unfinished write"), BookieMode.LIMBO),
        (bookie(ordered=PlacementState.DRAINED), BookieMode.DRAINING),
        (bookie(ordered=PlacementState.DRAINED, is_read_only=True), BookieMode.DRAINING),
        (bookie(ordered=PlacementState.DISALLOWED), BookieMode.CLOSED),
        (bookie(ordered=PlacementState.OFFLINE), BookieMode.OFFLINE),
        (bookie(is_up=False, ordered=PlacementState.DRAINED), BookieMode.DOWN),
        (bookie(is_known=False), BookieMode.DECOMMISSIONED),
    ],
)
def test_the_mode_says_what_a_bookie_may_be_used_for(view: BookieView, mode: BookieMode) -> None:
    assert view.mode is mode
    assert list(faults(view.as_row(), record(BOOKIE_ROW))) == []


def test_free_space_is_the_present_one_or_marked_as_old() -> None:
    silent = StatusDocument({}, "h:2 does not respond")
    assert (bookie().free_bytes, bookie().is_free_space_current) == (26, True)
    old = bookie(status=silent)
    assert (old.free_bytes, old.is_free_space_current) == (1000, False)
    assert for_people(old.as_row())["free_bytes"] == "1000 B when it registered"
    assert bookie(status=silent, registered="").free_bytes is None
    assert bookie(is_up=False).free_bytes is None


@pytest.mark.parametrize(
    ("views", "ordered", "state"),
    [
        ([bookie(), bookie("c@00000002", is_up=False)], None, OPEN),
        ([bookie(is_read_only=True), bookie("c@00000002", is_up=False)], None, NO_WRITABLE),
        ([bookie(ordered=PlacementState.DRAINED)], None, NO_WRITABLE),
        ([bookie(is_up=False)], None, DOWN),
        ([], None, EMPTY),
        ([bookie()], PlacementState.DISALLOWED, "disallowed"),
    ],
)
def test_a_region_without_a_writable_bookie_is_not_open(
    views: list[BookieView], ordered: PlacementState | None, state: str
) -> None:
    states = {} if ordered is None else {EU: ordered}
    servers = [ServerRecord("repair", "", "h:1", "eu"), ServerRecord("read-proxy", "", "", "eu")]
    (row,) = region_rows(views, states, servers)
    assert (row["region"], row["state"]) == ("eu", state)
    assert (row["proxies"], row["repairers"]) == (1, 1)
    assert list(faults(row, record(REGION_ROW))) == []


def test_each_region_has_its_own_row_and_the_sum_of_the_free_space() -> None:
    silent = StatusDocument({}, "h:2 does not respond")
    views = [
        bookie(),
        bookie("c@00000002", is_read_only=True),
        bookie("d@00000003", US),
        bookie("e@00000004", US, status=silent, registered=""),
        bookie("f@00000005", None),
    ]
    rows = {row["region"]: row for row in region_rows(views, {})}
    assert list(rows) == ["unknown", "eu", "us"]
    assert (rows["eu"]["writable"], rows["eu"]["free_bytes"]) == (1, 26)
    assert rows["us"]["free_bytes"] is None, "unknown free space is not added as 0"
