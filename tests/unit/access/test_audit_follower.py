"""``AuditFollower`` reads each line once, although writers rename the files."""

from pathlib import Path
from random import Random

import pytest

from rhumbline.access.audit_follower import AuditFollower
from rhumbline.access.rotating_file import RotatingFile
from rhumbline.core.protocol.errors import ClosedError, ConfigurationError
from rhumbline.tests.support.fakes.recorded_log import recorded_log


def writer(path: Path, kept: int = 20) -> RotatingFile:
    return RotatingFile(path, bytes_max=200, kept=kept, syncs=False)


def read(follower: AuditFollower) -> list[bytes]:
    found = follower.read()
    return [] if found is None else found.lines


def drain(follower: AuditFollower) -> list[bytes]:
    """Read and commit until two reads in a row return nothing."""
    found: list[bytes] = []
    empty = 0
    while empty < 2:
        lines = read(follower)
        follower.commit()
        found += lines
        empty = 0 if lines else empty + 1
    return found


@pytest.mark.seeds(10)
def test_each_number_names_one_line_across_renames_and_restarts(seed: int, tmp_path: Path) -> None:
    random, path = Random(seed), tmp_path / "audit"
    follower, file = AuditFollower(path), writer(path)
    written: list[bytes] = []
    received: dict[tuple[bytes, int], bytes] = {}
    for number in range(100):
        line = b"line %d %s" % (number, b"x" * random.randint(0, 40))
        file.append(line + b"\n")
        written.append(line)
        match random.randrange(6):
            case 0:
                receive(follower, received)
            case 1:
                receive(follower, received)
                follower.commit()
            case 2:
                follower.close()
                follower = AuditFollower(path)
            case 3:
                file.close()
                file = writer(path)
    empty = 0
    while empty < 2:
        empty = 0 if receive(follower, received) else empty + 1
        follower.commit()
    assert list(received.values()) == written
    assert len({producer for producer, _ in received}) == 1
    assert follower.gap_count == 0
    follower.close()
    file.close()


def receive(follower: AuditFollower, received: dict[tuple[bytes, int], bytes]) -> bool:
    """Keep the next lines by their numbers, as a stream does; return whether there were any."""
    if (found := follower.read()) is None:
        return False
    for number, line in enumerate(found.lines, start=found.first_sequence):
        assert received.setdefault((found.producer, number), line) == line
    return True


def test_lines_that_were_not_committed_are_read_again_without_later_ones(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    file = writer(path)
    file.append(b"one\ntwo\n")
    first = AuditFollower(path)
    handed_over = first.read()
    assert handed_over is not None and handed_over.lines == [b"one", b"two"]
    first.close()
    file.append(b"three\n")
    second = AuditFollower(path)
    second.commit()  # it has read nothing yet
    assert second.read() == handed_over
    assert second.read() == handed_over
    second.commit()
    second.close()
    third = AuditFollower(path)
    following = third.read()
    assert following == (handed_over.producer, 2, [b"three"])
    third.close()
    file.close()


def test_files_that_were_deleted_unread_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    file = writer(path, kept=2)
    follower = AuditFollower(path)
    assert follower.read() is None
    file.append(b"first\n")
    before = follower.read()
    assert before is not None
    follower.commit()
    for number in range(60):
        file.append(b"a longer line %d\n" % number)
    follower.close()
    follower = AuditFollower(path)
    with recorded_log() as recorded:
        after = follower.read()
        assert after is not None
        assert after.producer != before.producer and after.first_sequence == 0
        follower.commit()
        found = drain(follower)
    assert recorded.events() == ["audit lines missed"]
    assert found[-1] == b"a longer line 59"
    assert follower.gap_count == 1
    follower.close()
    file.close()


def test_a_line_that_is_not_whole_waits_and_an_empty_one_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    follower = AuditFollower(path)
    path.write_bytes(b"whole\n\nhalf")
    assert read(follower) == [b"whole"]
    follower.commit()
    assert read(follower) == []
    with path.open("ab") as file:
        file.write(b" a line\n\n")
    assert read(follower) == [b"half a line"]
    follower.commit()
    with path.open("ab") as file:
        file.write(b"\n\n")
    assert read(follower) == []
    follower.close()


def test_a_file_that_is_no_audit_log_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(b"first\n" + b"x" * (1 << 20) + b"\n")
    follower = AuditFollower(path)
    assert drain_one(follower) == [b"first"]
    with pytest.raises(ConfigurationError, match="at byte 6 is longer than"):
        follower.read()
    follower.close()


def drain_one(follower: AuditFollower) -> list[bytes]:
    lines = read(follower)
    follower.commit()
    return lines


def test_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(b"one\ntwo\n")
    follower = AuditFollower(path)
    assert read(follower) == [b"one", b"two"]
    path.write_bytes(b"one\n")
    with pytest.raises(ConfigurationError, match="was changed after it was read"):
        follower.read()
    follower.close()


def test_one_process_follows_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    first = AuditFollower(path)
    with pytest.raises(ConfigurationError, match="another process forwards it"):
        AuditFollower(path)
    first.close()
    first.close()
    AuditFollower(path).close()
    for call in (first.read, first.commit, first.renumber):
        with pytest.raises(ClosedError):
            call()


def test_a_damaged_position_is_an_error_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "audit.forwarded").write_text("[]")
    with pytest.raises(ConfigurationError, match=r"audit\.forwarded: not a position"):
        AuditFollower(tmp_path / "audit")
