"""Groups for compaction are consecutive small segments, within the size of a file."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rhumbline.coldstore.archive.manifest import CHAIN_START, Manifest, Part
from rhumbline.coldstore.compact import grouping
from rhumbline.coldstore.compact.grouping import plan_groups, stored_bytes

FILE_BYTES = 1000


def manifest_of(lssn: int, sizes: list[int], *, is_merged: bool = False) -> Manifest:
    parts = tuple(
        Part(f"p{lssn}-{n}", n, n, 1, 1, 1, 1, size, "", "", "", 0, int(is_merged))
        for n, size in enumerate(sizes)
    )
    count = len(parts)
    return Manifest(
        "test", "s", "f" * 32, lssn, count, count, count, 1, 1, 0, 0, 0, False, "", CHAIN_START,
        parts,
    )  # fmt: skip


segments = st.lists(
    st.tuples(st.lists(st.integers(1, 700), max_size=3), st.booleans(), st.integers(1, 2)),
    max_size=30,
)


@given(segments)
def test_groups_are_consecutive_and_within_a_file(
    given_segments: list[tuple[list[int], bool, int]],
) -> None:
    manifests: list[Manifest] = []
    lssn = 0
    for sizes, is_merged, step in given_segments:
        lssn += step
        manifests.append(manifest_of(lssn, sizes, is_merged=is_merged))
    lssns = {one.lssn for one in manifests}
    groups = plan_groups(manifests, FILE_BYTES)
    chosen = [one for group in groups for one in group]
    assert chosen == sorted(chosen, key=lambda one: one.lssn)
    assert len({one.lssn for one in chosen}) == len(chosen)
    for group in groups:
        assert sum(map(stored_bytes, group)) <= FILE_BYTES
        assert sum(len(one.parts) for one in group) > 1
        assert set(range(group[0].lssn, group[-1].lssn + 1)) <= lssns, "a segment is missing"
        assert all(one.parts and not one.parts[0].group_count for one in group)
    assert plan_groups([replace(one, parts=()) for one in manifests if not one.parts], 1) == []


def test_a_file_has_a_limited_number_of_segments() -> None:
    manifests = [manifest_of(n, [1]) for n in range(1, 2 * grouping.FILE_SEGMENTS_MAX)]
    groups = plan_groups(manifests, 1 << 30)
    assert [len(one) for one in groups] == [grouping.FILE_SEGMENTS_MAX, len(manifests) // 2]
