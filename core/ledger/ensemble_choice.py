"""Chooses which bookies of an ensemble to replace when not all of them can be.

Writers, recoveries and repair share it. It replaces as many of the wanted members as possible and
leaves the others to a later change or to repair (rules LED-14, REC-14, RPR-8).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from random import Random

from ..protocol.bookie_id import BookieId
from ..protocol.ensemble_change import (
    EVERY_SUBSET_MAX,
    fewest_replacements,
    largest_replacements,
    replaced_indices,
)
from ..protocol.errors import NotEnoughBookiesError
from ..protocol.placement import (
    NO_RULE,
    BookieInfo,
    PlacementPolicy,
    SpreadRule,
    crowded_levels,
    fewest_domains,
)
from ..protocol.quorum import Quorum, QuorumView
from ..runtime.event_log import EventLog

_LOG = EventLog(__name__)


async def choose_replacements(
    placement: PlacementPolicy,
    quorum: Quorum,
    ensemble: Sequence[BookieInfo],
    wanted: int,
    candidates: Sequence[Sequence[BookieInfo]],
    *,
    random: Random,
    ledger: int | None = None,
    rule: SpreadRule = NO_RULE,
) -> tuple[BookieId, ...]:
    """Returns a legal ensemble in which as many of the ``wanted`` indices (a mask) as possible are
    replaced.

    If the ensemble is not legal under ``quorum``, as few others as possible are replaced to make it
    so. ``candidates`` are tried in order for each choice; the last ones include all others. Raises
    NotEnoughBookiesError if nothing can be replaced that should be.
    """
    regions = [info.region for info in ensemble]
    members = {info.bookie for info in ensemble}
    everyone = candidates[-1]
    is_legal = QuorumView(quorum, regions).is_legal()
    if is_legal and not wanted:
        return tuple(info.bookie for info in ensemble)
    spare: Counter[str | None] = Counter(
        info.region for info in everyone if info.bookie not in members
    )
    choices = largest_replacements(quorum, regions, wanted, spare)
    if not is_legal:  # another R needs other bookies: replace as few as possible
        choices = chain(choices, fewest_replacements(quorum, regions, spare))
    refused: NotEnoughBookiesError | None = None
    for failed in choices:
        for eligible in candidates:
            try:
                found = placement.replace(
                    quorum, ensemble, failed, eligible, random=random, rule=rule
                )
            except NotEnoughBookiesError as error:
                refused = refused or error
                continue
            _log_crowded(quorum, ensemble, found, everyone, ledger)
            return found
        if quorum.ensemble_size > EVERY_SUBSET_MAX:
            await asyncio.sleep(0)  # each search is bounded; others run in between
    if refused is None:  # nothing can be replaced: let placement say what is missing
        mask = wanted or (1 << quorum.ensemble_size) - 1
        failed = tuple(i for i in range(quorum.ensemble_size) if mask >> i & 1)
        return placement.replace(quorum, ensemble, failed, everyone, random=random, rule=rule)
    raise refused


def _log_crowded(
    quorum: Quorum,
    ensemble: Sequence[BookieInfo],
    bookies: Sequence[BookieId],
    candidates: Sequence[BookieInfo],
    ledger: int | None,
) -> None:
    """Log that new members had to be placed in domains that their write sets use already.

    The locations of members that are down are not known, and do not count.
    """
    before = [info.bookie for info in ensemble]
    added = [bookies[index] for index in replaced_indices(before, bookies)]
    if not added:
        return
    members = [info.path for info in _chosen_infos(bookies, (*ensemble, *candidates))]
    if min(fewest_domains(quorum, members)[1:]) >= quorum.write_quorum:
        return  # no level can be crowded, whatever bookies there are
    levels = crowded_levels(
        quorum,
        members,
        [info.path for info in (*ensemble, *candidates) if info.host is not None],
    )
    if levels:
        _LOG.warning("copies placed together", ledger=ledger, added=added, levels=levels)


def _chosen_infos(bookies: Sequence[BookieId], infos: Iterable[BookieInfo]) -> list[BookieInfo]:
    """Return what is known of some bookies, in their order; of two values the later one counts."""
    chosen = dict.fromkeys(bookies)
    known = {info.bookie: info for info in infos if info.bookie in chosen}
    return [known[bookie] for bookie in bookies]


async def choose_live_ensemble(
    placement: PlacementPolicy,
    quorum: Quorum,
    ensemble: Sequence[BookieInfo],
    failed: int,
    candidates: Sequence[BookieInfo],
    *,
    random: Random,
    ledger: int | None = None,
    rule: SpreadRule = NO_RULE,
) -> tuple[BookieId, ...]:
    """Returns an ensemble whose members without the failed ones that remain satisfy P.

    It needs no more live bookies than P itself: AQ of them in R regions for each write set. Failed
    members for which there is no other bookie keep their index. Raises NotEnoughBookiesError.
    """
    need = f"{quorum} needs {quorum.ack_quorum} live bookies in {quorum.min_regions} regions"
    try:
        bookies = await choose_replacements(
            placement,
            quorum,
            ensemble,
            failed,
            [candidates],
            random=random,
            ledger=ledger,
            rule=rule,
        )
    except NotEnoughBookiesError as error:
        raise NotEnoughBookiesError(f"{need} for each entry: {error}") from error
    regions = [info.region for info in _chosen_infos(bookies, (*ensemble, *candidates))]
    replaced = replaced_indices([info.bookie for info in ensemble], bookies)
    left = failed & ~sum(1 << index for index in replaced)
    view = QuorumView(quorum, regions)
    if view.must_change_ensemble(left):
        names = ", ".join(b for index, b in enumerate(bookies) if left >> index & 1)
        raise NotEnoughBookiesError(f"{need} for each entry; nothing can replace {names}")
    return bookies
