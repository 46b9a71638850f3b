"""Openers of stores by URI scheme: Rhumbline's own, and those that installed packages add.

A package adds a store by an entry point in the group of its kind. The name of the entry point is
the scheme, and its value is the opener::

    [project.entry-points."rhumbline.metadata_stores"]
    journal = "example_store:open_journal"

Entry points are read when a scheme is not one of Rhumbline's own, and the code of a package is
imported when one of its URIs is opened. An installed package therefore costs nothing until it is
used, and a broken one disturbs only the users of its own scheme.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from ..protocol.errors import PluginError, RhumblineError

Opener = TypeVar("Opener")

METADATA_STORES = "rhumbline.metadata_stores"
"""The group of entry points that open metadata stores."""

COLD_STORES = "rhumbline.cold_stores"
"""The group of entry points that open cold stores."""


@dataclass(frozen=True, slots=True)
class FoundOpener(Generic[Opener]):
    """An opener, and where it comes from; ``origin`` is None if it is Rhumbline's own."""

    open: Opener
    origin: str | None

    @contextmanager
    def attributed(self) -> Iterator[None]:
        """Raise PluginError for an error in the block that a plug-in must not raise.

        A plug-in raises errors of ``rhumbline.errors``; these pass.
        """
        try:
            yield
        except RhumblineError:
            raise
        except Exception as error:
            if self.origin is None:
                raise
            raise PluginError(f"{self.origin} raised {type(error).__name__}: {error}") from error

    def check_interface(self, store: object, interface: type) -> None:
        """Check that a plug-in's store has all methods of ``interface``. Raises PluginError."""
        if self.origin is None:
            return
        names = (name for name in dir(interface) if not name.startswith("_"))
        if missing := [name for name in names if not hasattr(store, name)]:
            raise PluginError(
                f"{self.origin} opened a {type(store).__name__} without {', '.join(missing)}"
            )


class OpenerTable(Generic[Opener]):
    """The openers of one kind of store; ``kind`` is its name in messages."""

    def __init__(self, kind: str, group: str, own: Mapping[str, Opener]) -> None:
        self._kind = kind
        self._group = group
        self._own = dict(own)
        self._loaded: dict[str, FoundOpener[Opener]] = {}

    def find(self, scheme: str) -> FoundOpener[Opener] | None:
        """Return the opener of a scheme; None if no store has this scheme.

        A scheme of Rhumbline's own cannot be replaced. Raises PluginError if the plug-in cannot be
        imported, or if several packages add the scheme.
        """
        if scheme in self._own:
            return FoundOpener(self._own[scheme], None)
        if scheme not in self._loaded:
            added = [entry for entry in self._added() if entry.name == scheme]
            if not added:
                return None
            self._loaded[scheme] = self._load(added)
        return self._loaded[scheme]

    def schemes(self) -> list[str]:
        """Return all schemes: Rhumbline's own in their order, then those of packages, sorted."""
        return [*self._own, *sorted({entry.name for entry in self._added()} - {*self._own})]

    def _added(self) -> Iterable[EntryPoint]:
        return entry_points(group=self._group)

    def _load(self, added: list[EntryPoint]) -> FoundOpener[Opener]:
        entry, *others = added
        if others:
            packages = ", ".join(sorted(map(_package, added)))
            raise PluginError(
                f"{self._kind} {entry.name!r} is added by several packages: {packages}; "
                "uninstall all but one"
            )
        origin = f"{self._kind} {entry.name!r} of package {_package(entry)}"
        try:
            loaded = entry.load()
        except Exception as error:
            raise PluginError(
                f"{origin} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not callable(loaded):
            raise PluginError(f"{origin}: {entry.value} is not callable")
        return FoundOpener(loaded, origin)


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
