"""A copy gets segments, moved files and relocations, and no relocation that contradicts its own."""

from dataclasses import replace

from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.archive.relocation import Erasure, MovedSegment, Relocation, Relocations
from rhumbline.coldstore.erase.erased_set import ErasedSet
from rhumbline.coldstore.restore.copy_plan import CopyPlan, StoredArchive, plan_copy
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)

RECORDS = 30


async def segments(world: LogWorld) -> list[Manifest]:
    await fill_stream(world, 3, RECORDS)
    cold: ColdStore = DictColdStore()
    return await archive_segments(world, cold)


def moved(manifest: Manifest, number: int, created_ms: int = 7, erased: int = 0) -> Relocation:
    part = replace(manifest.parts[0], name=f"file-{number}", record_count=RECORDS - erased)
    sets = (ErasedSet(0, 0, RECORDS, 5, ((0, erased),)),) if erased else ()
    segment = MovedSegment(manifest.lssn, manifest.link, (part,), sets)
    names = (manifest.namespace, manifest.stream, manifest.stream_identity)
    cause = Erasure("me", "why") if erased else None
    return Relocation(*names, number, created_ms, (segment,), cause)


def archive(manifests: list[Manifest], *relocations: Relocation) -> StoredArchive:
    known = Relocations(relocations)
    return StoredArchive({one.lssn: known.apply(one) for one in manifests}, known)


def lssns(plan: CopyPlan) -> tuple[list[int], list[int], list[int]]:
    numbers = [one.number for one in plan.relocations]
    return [one.lssn for one in plan.segments], [one.lssn for one in plan.moved], numbers


async def test_only_what_is_missing_is_copied_and_the_newest_relocation_first(
    world: LogWorld,
) -> None:
    one, two, three = await segments(world)
    relocations = moved(one, 1), moved(two, 2, erased=4), moved(two, 3, erased=5)
    source = archive([one, two, three], *relocations)
    for target, expected in (
        (archive([]), ([1, 2, 3], [], [3, 2, 1])),
        (archive([one, two]), ([3], [1, 2], [3, 2, 1])),
        (archive([one, two, three], relocations[0]), ([], [2], [3, 2])),
        (archive([one, two, three], *relocations), ([], [], [])),
        (source, ([], [], [])),
    ):
        plan = plan_copy(source, target)
        assert lssns(plan) == expected
        assert plan.faults == {}


async def test_relocations_that_the_source_has_replaced_do_not_matter(world: LogWorld) -> None:
    one, two, _ = await segments(world)
    old, new = moved(one, 1), moved(one, 2)
    assert lssns(plan_copy(archive([one, two], new), archive([one], old))) == ([2], [1], [2])


async def test_a_target_with_relocations_of_its_own_gets_no_segment_without_its_proof(
    world: LogWorld,
) -> None:
    one, two, three = await segments(world)
    erasure = moved(two, 1, erased=3)
    for own in (moved(one, 1, created_ms=9), moved(one, 2)):
        plan = plan_copy(archive([one, two, three], erasure), archive([one, two], own))
        assert lssns(plan) == ([3], [], [])
        assert list(plan.faults) == [two.key]
        assert "repeat the erasure there" in plan.faults[two.key]
        plan = plan_copy(archive([one, two, three], erasure), archive([one], own))
        assert lssns(plan) == ([], [], []), "the chain ends before the erased segment"
        assert list(plan.faults) == [two.key]
    plan = plan_copy(archive([one, two, three]), archive([one], moved(one, 1)))
    assert lssns(plan) == ([2, 3], [], [])
    assert plan.faults == {}


async def test_an_erasure_in_the_target_is_not_taken_for_one_that_the_source_has_replaced(
    world: LogWorld,
) -> None:
    """The source has no relocation 1 any more, and its relocation 2 would undo the erasure."""
    one, two, three = await segments(world)
    erased = archive([one, two], moved(one, 1, erased=3))
    plan = plan_copy(archive([one, two, three], moved(one, 2)), erased)
    assert lssns(plan) == ([3], [], [])
    assert list(plan.faults) == [one.key]


async def test_another_archive_of_a_segment_is_a_fault(world: LogWorld) -> None:
    one, two, _ = await segments(world)
    other = replace(two, completed_ms=two.completed_ms + 1)
    plan = plan_copy(archive([one, two]), archive([one, other]))
    assert lssns(plan) == ([], [], [])
    assert "another archive" in plan.faults[two.key]
