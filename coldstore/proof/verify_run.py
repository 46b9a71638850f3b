"""Verifies many archived segments at the same time, and continues where an earlier run stopped."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path

from ...core.protocol.errors import CorruptionError, InvalidArgumentError
from ...core.runtime.cold_store import ColdStore
from ..archive.catalog import ManifestListing
from ..archive.manifest import Manifest
from .verify import VerifyResult, verify_next


class VerifiedLog:
    """A file with the segments that earlier runs found intact, as a context manager.

    Its first line names the cold store; every other line is a manifest's key and digest. Only
    intact segments are noted, so a repeat verifies the others again. A torn last line is ignored.
    """

    def __init__(self, path: Path, uri: str) -> None:
        self._path = path
        self._uri = uri
        self._known: set[tuple[str, str]] = set()
        self._file: TextIOWrapper | None = None

    def __enter__(self) -> "VerifiedLog":
        lines = self._path.read_text().split("\n") if self._path.exists() else []
        whole, torn = lines[:-1], lines[-1:]
        try:
            entries = [json.loads(line) for line in whole]
            if entries and entries[0] != {"cold": self._uri}:
                raise InvalidArgumentError(
                    f"{self._path} belongs to the cold store {entries[0]['cold']}, not {self._uri}"
                )
            self._known = {(one["key"], one["sha256"]) for one in entries[1:]}
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"{self._path}: not a list of verified segments") from error
        if torn not in ([], [""]):
            self._path.write_text("".join(f"{line}\n" for line in whole))
        self._file = self._path.open("a")
        if not whole:
            self._write({"cold": self._uri})
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()

    def has(self, manifest: Manifest) -> bool:
        """True if a segment with exactly this manifest was found intact."""
        return (manifest.key, _digest(manifest)) in self._known

    def note(self, manifest: Manifest) -> None:
        """Note that a segment is intact."""
        self._known.add((manifest.key, _digest(manifest)))
        self._write({"key": manifest.key, "sha256": _digest(manifest)})

    def _write(self, entry: dict[str, str]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


async def verify_all(
    cold: ColdStore,
    listing: ManifestListing,
    *,
    tasks: int = 4,
    log: VerifiedLog | None = None,
    on_done: Callable[[int], None] = lambda _: None,
) -> list[VerifyResult]:
    """Verify the segments of a listing, ``tasks`` at a time, and return the results in its order.

    At most ``tasks`` parts are in memory. Segments in ``log`` are not read again; their links still
    are verified. ``on_done`` gets the number of segments that are done.
    """
    limit = asyncio.Semaphore(tasks)
    done = 0

    async def verify(manifest: Manifest, previous: Manifest | None) -> VerifyResult:
        nonlocal done
        async with limit:
            tip = listing.tips.get(manifest.folder)
            is_known = log is not None and log.has(manifest)
            result = await verify_next(cold, manifest, previous, tip, reads_parts=not is_known)
        if log is not None and not is_known and not result.faults:
            log.note(manifest)
        done += 1
        on_done(done)
        return result

    manifests = listing.manifests
    before = [None, *manifests[:-1]]
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(verify(one, last if last and last.folder == one.folder else None))
            for one, last in zip(manifests, before, strict=False)
        ]
    return [task.result() for task in running]


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(manifest.encode()).hexdigest()
