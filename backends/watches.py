"""The registered watches of one store handle, by path."""

import asyncio
from collections.abc import Callable, Iterable


class PathWatch:
    """A watch; calls of its callback that are due at the same time are coalesced."""

    def __init__(
        self, watches: "Watches", path: str, callback: Callable[[], None], *, is_prefix: bool
    ) -> None:
        self.path = path
        self.is_prefix = is_prefix
        self._watches = watches
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self._is_closed = False

    def fire(self) -> None:
        """Schedule a call of the callback."""
        if not self._is_due and not self._is_closed:
            self._is_due = True
            self._loop.call_soon(self._call)

    def close(self) -> None:
        """Stop the watch: the callback is no longer called. Safe to repeat."""
        self._is_closed = True
        self._watches.discard(self)

    def _call(self) -> None:
        self._is_due = False
        if not self._is_closed:
            self._callback()


class Watches:
    """The watches by path; ``on_path`` is called with each path whose set of watches changed."""

    def __init__(self, on_path: Callable[[str], None] = lambda _: None) -> None:
        self._by_path: dict[str, dict[PathWatch, None]] = {}
        self._on_path = on_path

    def __len__(self) -> int:
        return len(self._by_path)

    def paths(self) -> list[str]:
        """Return all watched paths."""
        return list(self._by_path)

    def is_prefix(self, path: str) -> bool | None:
        """Return True if ``path`` has a prefix watch, None if it has no watch at all."""
        at_path = self._by_path.get(path)
        return None if at_path is None else any(watch.is_prefix for watch in at_path)

    def add(self, path: str, callback: Callable[[], None], *, is_prefix: bool) -> PathWatch:
        """Add a watch."""
        watch = PathWatch(self, path, callback, is_prefix=is_prefix)
        self._by_path.setdefault(path, {})[watch] = None
        self._on_path(path)
        return watch

    def discard(self, watch: PathWatch) -> None:
        """Remove a watch. Safe to repeat."""
        at_path = self._by_path.get(watch.path, {})
        if watch not in at_path:
            return
        del at_path[watch]
        if not at_path:
            del self._by_path[watch.path]
        self._on_path(watch.path)

    def changed(self, paths: Iterable[str]) -> None:
        """Fire the watches of changed paths, and prefix watches of their ancestors."""
        for path in paths:
            for watch in self._by_path.get(path, ()):
                watch.fire()
            end = len(path)
            while end > 1:
                end = path.rfind("/", 0, end)
                for watch in self._by_path.get(path[:end] or "/", ()):
                    if watch.is_prefix:
                        watch.fire()

    def fire_at(self, path: str) -> None:
        """Fire the watches that are set at ``path``."""
        for watch in self._by_path.get(path, ()):
            watch.fire()

    def fire_all(self) -> None:
        """Fire every watch, since changes may have been missed."""
        for at_path in self._by_path.values():
            for watch in at_path:
                watch.fire()

    def close(self) -> None:
        """Close all watches."""
        for at_path in list(self._by_path.values()):
            for watch in list(at_path):
                watch.close()
