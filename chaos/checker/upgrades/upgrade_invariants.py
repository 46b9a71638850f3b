"""The invariants of clusters whose processes run at two versions (rules UPG-1 to UPG-4)."""

from collections.abc import Iterator
from itertools import pairwise

from ..run_record import RunRecord, invariant


@invariant("G50")
def new_formats_wait_for_their_level(record: RunRecord) -> Iterator[str]:
    """Before the cluster is at a level, no value in a format of that level is stored, and no
    program reads a value whose format it does not know."""
    use = record.upgrades
    if use is None:
        return
    for at_ms, path in use.written:
        if at_ms < use.risen_ms:
            yield f"at {at_ms:.1f} ms {path} was stored in a format of level {use.level}"
    for value in use.unreadable:
        if value.at_ms < use.risen_ms:
            yield (
                f"at {value.at_ms:.1f} ms {value.process} read {value.path}, whose format it does "
                "not know"
            )


@invariant("G51")
def the_level_rises_without_old_servers(record: RunRecord) -> Iterator[str]:
    """The level never falls. When it rises, every registered server that was registered before the
    intention was stored knows the level."""
    use = record.upgrades
    if use is None:
        return
    for before, after in pairwise(use.stored):
        if after.level < before.level:
            yield f"at {after.at_ms:.1f} ms the level fell from {before.level} to {after.level}"
    for rise in use.rises:
        for one in rise.registered:
            if one.newest_level < use.level and one.since_ms < rise.intended_ms:
                yield (
                    f"at {rise.at_ms:.1f} ms the level rose to {use.level} although {one.process}, "
                    f"which knows levels up to {one.newest_level}, was registered as {one.path} "
                    f"since {one.since_ms:.1f} ms"
                )


@invariant("G52")
def old_programs_stop_at_a_raised_level(record: RunRecord) -> Iterator[str]:
    """No program that does not know the level starts after the rise, and one that was running stops
    soon, once the faults have ended. If all processes know the level at the end, it can be
    raised."""
    use = record.upgrades
    if use is None:
        return
    for one in use.admissions:
        if one.newest_level < use.level and one.called_ms > use.risen_ms:
            yield (
                f"{one.process} began at {one.called_ms:.1f} ms and knows levels up to "
                f"{one.newest_level}; the level was {use.level} since {use.risen_ms:.1f} ms"
            )
    for process, newest in use.running_after.items():
        if newest < use.level:
            yield f"{process} runs at level {use.level} and knows levels up to {newest}"
    if use.final_refusal:
        yield f"all processes know level {use.level}, and it was refused: {use.final_refusal}"
