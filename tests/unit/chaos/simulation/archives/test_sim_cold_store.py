"""The simulated cold store records what was created and deleted, also if a response is lost."""

from random import Random

import pytest

from rhumbline.chaos.simulation.archives import sim_cold_store
from rhumbline.chaos.simulation.archives.sim_cold_store import ObjectChange, SimColdStore
from rhumbline.core.protocol.errors import UnavailableError, UnknownOutcomeError


async def test_changes_are_recorded() -> None:
    store = SimColdStore(Random(1), lambda: 7.0)
    store.is_lossy = False
    assert await store.put_if_absent("a", b"1")
    assert not await store.put_if_absent("a", b"2")
    assert await store.get("a") == b"1"
    assert (await store.stat("a")).size_bytes == 1
    await store.delete("a")
    assert await store.list() == []
    assert store.changes == [ObjectChange(7.0, "a", True), ObjectChange(7.0, "a", False)]


async def test_a_lost_request_changes_nothing_and_a_lost_response_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def now_ms() -> float:
        monkeypatch.setattr(sim_cold_store, "_LOSS", 1.0)  # from the change on
        return 7.0

    store = SimColdStore(Random(1), now_ms)
    monkeypatch.setattr(sim_cold_store, "_LOSS", 1.0)
    with pytest.raises(UnavailableError):
        await store.put_if_absent("a", b"1")
    assert store.changes == []
    monkeypatch.setattr(sim_cold_store, "_LOSS", 0.0)
    with pytest.raises(UnknownOutcomeError):
        await store.put_if_absent("a", b"1")
    assert store.changes == [ObjectChange(7.0, "a", True)]
