"""The index says of every stream what its archive says, at any time and after any crash."""

import asyncio
from collections import Counter
from random import Random

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.index import indexer as indexer_module
from rhumbline.coldstore.index.changes import note_rewrite
from rhumbline.coldstore.index.check_index import IndexCheck
from rhumbline.coldstore.index.indexer import Indexer
from rhumbline.coldstore.index.manifest_index import ManifestIndex
from rhumbline.coldstore.proof.chain_tip import read_tip
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.coldstore.index.index_world import NAMESPACE, IndexWorld, MemoryStore


class JitteryStore(MemoryStore):
    """A store whose calls take a random number of turns of the event loop."""

    def __init__(self, random: Random) -> None:
        super().__init__(parallel=8)
        self._random = random

    async def _call(self, kind: str) -> None:
        await super()._call(kind)
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)


def test_a_pass_adds_what_was_archived_since(index_world: IndexWorld) -> None:
    async def check() -> None:
        await index_world.append("a", 3)
        await index_world.append("b")
        with recorded_log("rhumbline.coldstore.index") as log:
            first = await index_world.indexer.run_once()
        fields = {"namespace": NAMESPACE, "generation": 1, "chains": 2, "packs": 1}
        assert log.fields("index written") == [fields]
        assert (first.changed, first.is_rebuilt) == (2, True)
        await index_world.check()
        await index_world.append("a", 2)
        await index_world.append("c")
        await index_world.check()
        assert (await index_world.indexer.run_once()).changed == 2
        await index_world.check()
        idle = await index_world.indexer.run_once()
        assert idle.changed == idle.waiting == 0

    index_world.run(check())


def test_a_reader_finds_every_segment_before_the_index_has_it(index_world: IndexWorld) -> None:
    """Whatever was archived, deleted or written again, whenever the indexers run."""

    async def check(seed: int) -> None:
        world, random = IndexWorld(), Random(seed)
        indexers = [world.indexer, Indexer(world.cold, NAMESPACE)]
        for _ in range(60):
            stream = f"s{random.randrange(6)}"
            folders = [one for one in world.chains if one.stream == stream]
            match random.randrange(8):
                case 0 if len(folders) == 1:
                    await world.expire(stream, 1 + random.randrange(len(world.chains[folders[0]])))
                case 1 if len(folders) == 1:
                    await world.append(stream, identity="again")
                case 2 | 3:
                    await random.choice(indexers).run_once()
                case 4:
                    await asyncio.gather(*(one.run_once() for one in indexers))
                case 5:
                    indexers[1] = Indexer(world.cold, NAMESPACE)  # the process was started again
                case _ if len(folders) < 2:
                    await world.append(stream, 1 + random.randrange(3))
            await world.check()
        faults = IndexCheck(world.cold, NAMESPACE)
        await faults.load()
        assert await faults.faults(await scan_manifests(world.cold, NAMESPACE)) == {}

    for seed in range(6):
        asyncio.run(check(seed))


def test_a_reader_sees_what_was_archived_before_it_began() -> None:
    """Archivers, two indexers and a reader work at the same time, in random order."""

    async def check(seed: int) -> None:
        world = IndexWorld(JitteryStore(Random(seed)))
        indexers = [Indexer(world.cold, NAMESPACE) for _ in range(2)]
        archived: Counter[str] = Counter()
        is_done = asyncio.Event()

        async def archive(stream: str) -> None:
            for _ in range(8):
                await world.append(stream)
                archived[stream] += 1
                await asyncio.sleep(0)

        async def index(indexer: Indexer) -> None:
            while not is_done.is_set():
                await indexer.run_once()
                await asyncio.sleep(0)

        async def read() -> None:
            while not is_done.is_set():
                before = archived.copy()
                found = await world.read()
                assert all(len(found.get(one, ())) >= held for one, held in before.items())

        working = [asyncio.ensure_future(one) for one in (*map(index, indexers), read())]
        await asyncio.gather(*(archive(f"s{number}") for number in range(5)))
        is_done.set()
        await asyncio.gather(*working)
        await world.check()
        assert sum(archived.values()) == 40

    for seed in range(8):
        asyncio.run(check(seed))


def test_packs_are_merged_so_that_few_remain_and_each_record_is_written_rarely(
    index_world: IndexWorld,
) -> None:
    written: list[int] = []

    async def check() -> None:
        put = index_world.cold.put_if_absent

        async def counted(key: str, data: bytes) -> bool:
            if "/pack/" in key:
                written.append(len(data))
            return await put(key, data)

        index_world.cold.put_if_absent = counted  # type: ignore[method-assign]
        for number in range(128):
            await index_world.append(f"s{number}")
            await index_world.indexer.run_once()
        indexed = await ManifestIndex(index_world.cold, NAMESPACE).load()
        assert indexed is not None
        total = sum(one.size_bytes for one in indexed.head.packs)
        assert len(indexed.packs) <= 8
        assert sum(written) < 10 * total
        await index_world.indexer.run_once()
        assert len(index_world.cold.keys("/pack/")) == len(indexed.packs)
        assert len(index_world.cold.keys("/head/")) == 1
        assert index_world.cold.keys("/changed/") + index_world.cold.keys("/noted/") == []

    index_world.run(check())


def test_deleted_segments_leave_the_index(index_world: IndexWorld) -> None:
    async def check() -> None:
        await index_world.append("a", 5)
        await index_world.indexer.run_once()
        assert await index_world.expire("a", 4) == [1, 2, 3]
        await index_world.check()
        await index_world.indexer.run_once()
        await index_world.check()
        assert await index_world.read() == {"a": [4, 5]}

    index_world.run(check())


def test_manifests_that_were_written_again_replace_their_copies(index_world: IndexWorld) -> None:
    async def check() -> None:
        folder = await index_world.append("a", 3)
        await index_world.append("b")
        await index_world.indexer.run_once()
        await index_world.read()
        new = index_world.rewrite(folder, 2)
        tip = await read_tip(index_world.cold, folder)
        assert tip is not None
        await note_rewrite(index_world.cold, folder, tip.name)
        await index_world.check()
        await index_world.indexer.run_once()
        await index_world.check()
        await index_world.reader.refresh_matching(lambda _: True)
        assert index_world.reader.index("a").manifests[2] == new

    index_world.run(check())


def test_an_archive_that_was_deleted_as_a_whole_leaves_the_index(index_world: IndexWorld) -> None:
    async def check() -> None:
        folder = await index_world.append("a", 3)
        await index_world.append("b")
        await index_world.indexer.run_once()
        for key in list(index_world.cold.objects):
            if key.startswith((f"{folder.chain}/", f"{folder.records}/")):
                del index_world.cold.objects[key]
        await Indexer(index_world.cold, NAMESPACE).run_once()  # compares with a listing
        assert await index_world.read() == {"b": [1]}
        await Indexer(index_world.cold, NAMESPACE).rebuild()
        assert await index_world.read() == {"b": [1]}

    index_world.run(check())


def test_archives_of_older_versions_are_found_by_the_first_pass(index_world: IndexWorld) -> None:
    """They wrote no notes."""

    async def check() -> None:
        await index_world.append("a")
        await index_world.indexer.run_once()
        await index_world.append("a", 2)
        await index_world.append("old", 2)
        index_world.lose_notes()
        assert (await Indexer(index_world.cold, NAMESPACE).run_once()).changed == 2
        await index_world.check()

    index_world.run(check())


def test_an_archive_with_a_lost_tip_is_read_from_a_listing(index_world: IndexWorld) -> None:
    async def check() -> None:
        folder = await index_world.append("a", 2)
        await index_world.append("b")
        (tip,) = [key for key in index_world.cold.objects if key.startswith(folder.tips)]
        kept = index_world.cold.objects.pop(tip)
        await index_world.indexer.run_once()
        assert await index_world.reader.refresh_matching(lambda name: name == "b") == ["b"]
        with pytest.raises(Exception, match="the tip of the chain is missing"):
            await index_world.read()
        generations = len(index_world.cold.keys("/head/"))
        await index_world.indexer.run_once()
        assert len(index_world.cold.keys("/head/")) == generations, "nothing has changed"
        index_world.cold.objects[tip] = kept
        await index_world.indexer.run_once()
        await index_world.check()

    index_world.run(check())


def test_a_damaged_index_is_written_again(index_world: IndexWorld) -> None:
    async def check(kind: str) -> None:
        world = IndexWorld()
        await world.append("a", 2)
        await world.indexer.run_once()
        await world.append("b")
        (key,) = world.cold.keys(kind)
        world.cold.objects[key] = world.cold.objects[key][:-1]
        with recorded_log("rhumbline.coldstore.index") as log:
            await world.check()
        assert [one["namespace"] for one in log.fields("index ignored")] == [NAMESPACE] * 2
        with recorded_log("rhumbline.coldstore.index") as log:
            assert (await Indexer(world.cold, NAMESPACE).run_once()).is_rebuilt
        assert len(log.fields("index rebuilt")) == 1
        assert len(log.fields("index written")) == 1
        with recorded_log("rhumbline.coldstore.index") as log:
            await world.check()
        assert log.fields("index ignored") == []

    for kind in ("/head/", "/pack/"):
        asyncio.run(check(kind))


def test_failures_of_the_store_are_reported_and_the_next_pass_continues(
    index_world: IndexWorld,
) -> None:
    async def check() -> None:
        await index_world.append("a")
        list_keys, put_if_absent = index_world.cold.list, index_world.cold.put_if_absent
        refused, put = asyncio.Event(), asyncio.Event()

        async def listed(prefix: str = "") -> list[str]:
            if not refused.is_set():
                refused.set()
                raise UnavailableError("refused")
            return await list_keys(prefix)

        async def put_head(key: str, data: bytes) -> bool:
            if "/head/" in key:
                put.set()
            return await put_if_absent(key, data)

        index_world.cold.list = listed  # type: ignore[method-assign]
        index_world.cold.put_if_absent = put_head  # type: ignore[method-assign]
        with recorded_log("rhumbline.coldstore.index") as log:
            running = asyncio.ensure_future(index_world.indexer.run())
            await refused.wait()
            await put.wait()
            running.cancel()
            await asyncio.wait([running])
        assert log.fields("indexing failed")[0] == {"namespace": NAMESPACE, "error": "refused"}
        found = index_world.indexer.statistics()
        assert (found["failures"], found["waiting_changes"]) == (1, 0)

    index_world.run(check())


class _CrashError(BaseException):
    """The simulated crash of an indexer; nothing catches it."""


@pytest.mark.parametrize("is_before", [True, False])
def test_an_indexer_may_crash_at_any_call(
    index_world: IndexWorld, is_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "CHAINS_AT_A_TIME", 1)

    async def crash(at: int) -> bool:
        """Return whether an indexer crashed at its call number ``at``."""
        world, left = IndexWorld(), at
        await world.append("a", 2)
        await world.indexer.run_once()
        await world.append("a")
        await world.append("b", 2)
        await world.indexer.run_once()
        await world.expire("a", 2)
        crashing = IndexWorld()
        crashing.cold._objects = world.cold.objects
        is_crashed = False

        def crashes(name: str) -> None:
            call = getattr(world.cold, name)

            async def called(*given: object) -> object:
                nonlocal left
                left -= 1
                if left == 0 and is_before:
                    raise _CrashError
                result = await call(*given)
                if left == 0:
                    raise _CrashError
                return result

            setattr(crashing.cold, name, called)

        for name in ("put_if_absent", "get", "list", "delete"):
            crashes(name)
        try:
            await Indexer(crashing.cold, NAMESPACE).run_once()
        except _CrashError:
            is_crashed = True
        await world.check()
        await world.append("b")
        await world.check()
        for _ in range(3):
            await world.indexer.run_once()
            await world.check()
        heads, packs = world.cold.keys("/head/"), world.cold.keys("/pack/")
        indexed = await ManifestIndex(world.cold, NAMESPACE).load()
        assert indexed is not None
        assert (len(heads), len(packs)) == (1, len(indexed.packs))
        assert world.cold.keys("/changed/") + world.cold.keys("/noted/") == []
        return is_crashed

    calls = 1
    while asyncio.run(crash(calls)):
        calls += 1
    assert calls > 10
