"""Python's collector passes over what a server process keeps."""

import gc
import weakref

from rhumbline.server.process_memory import keep_from_collector


class Node:
    """An object that may refer to itself."""

    def __init__(self) -> None:
        self.other: Node | None = None


def test_only_what_exists_and_is_in_use_is_kept_from_the_collector() -> None:
    kept, gone = Node(), Node()
    gone.other = gone
    was_collected = weakref.ref(gone)
    del gone
    before = gc.get_freeze_count()
    try:
        keep_from_collector()
        assert was_collected() is None, "what is garbage already is not kept"
        assert gc.get_freeze_count() > before
        assert not any(found is kept for found in gc.get_objects())
        later = Node()
        assert any(found is later for found in gc.get_objects())
        was_freed = weakref.ref(kept)
        del kept
        assert was_freed() is None, "it is freed as soon as nothing refers to it"
    finally:
        gc.unfreeze()
