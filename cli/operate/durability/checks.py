"""Checks of the copies of all ledgers, for ``doctor``: what is at risk, and what is one failure
away."""

from collections.abc import AsyncIterator

from ....client.connect import Client
from ....client.store_client import StoreClient
from ....client.units import show_count
from ....core.metadata.ledger_store import LedgerStore
from ....core.protocol.errors import RhumblineError
from ....regions.durability.cluster_survey import read_durability
from ....regions.durability.report import DurabilityReport, tally
from ..server_checks import FAULT, OK, WARNING, Finding
from .command import describe_unreadable, faults


async def check_durability(client: Client) -> AsyncIterator[Finding]:
    """Check the live copies of all ledgers in each store that can be reached."""
    stores = {"": client.global_store}
    for region in client.regional_regions:
        try:
            stores[f" in {region}"] = await client.namespaces.store_of(region)
        except RhumblineError:
            continue  # reported with the stores
    for where, store in stores.items():
        report = await _report(store)
        reasons = faults(report, ())
        detail = "; ".join(reasons) or "nothing is at risk now"
        yield Finding(f"durability{where}", FAULT if reasons else OK, detail)
        if report.writes_blocked:
            ledgers = show_count(report.writes_blocked, "open ledger")
            yield Finding(f"writes{where}", FAULT, f"those of {ledgers} are blocked now")
        yield judge_next_failure(f"one more failure{where}", report)


def judge_next_failure(subject: str, report: DurabilityReport) -> Finding:
    """Say what the loss of one more bookie, host, rack or region would do to stored data."""
    if report.ledgers_unreadable:
        return Finding(subject, WARNING, describe_unreadable(report))
    effects = []
    for level in report.levels:
        last = sum(report.one_failure_from_loss[level].values())
        blocked = report.one_failure_from_blocking[level]
        if last:
            effects.append(f"of a {level} takes the last copies of {show_count(last, 'ledger')}")
        if blocked:
            ledgers = show_count(blocked, "open ledger")
            effects.append(f"of a {level} blocks the writes of {ledgers}")
    if effects:
        return Finding(subject, WARNING, f"the loss {', '.join(effects)}")
    levels, more = " or ".join(report.levels), " further" if report.writes_blocked else ""
    detail = f"the loss of a {levels} takes no last copy and blocks no{more} writes"
    return Finding(subject, OK, detail)


async def _report(store: StoreClient) -> DurabilityReport:
    return tally(*await read_durability(LedgerStore(store.store), store.directory))
