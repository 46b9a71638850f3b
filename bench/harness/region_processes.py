"""Bookie processes in several regions, with emulated wide-area links between them.

Every bookie listens on loopback. To each region it advertises the address of a separate relay for
the pair (viewer region, bookie), which delays each direction by half the round trip.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...chaos.managed_process import ManagedProcess, python_command
from .bookie_processes import BookieProcesses
from .wan_links import HOST


class RegionProcesses(BookieProcesses):
    """A new cluster below ``root`` with ``each`` bookies in each of ``regions``.

    ``viewers`` are further regions without bookies, whose processes read from the others.
    ``spares`` lists the regions of further bookies that are formatted but not started. Without
    ``has_links`` all connections are direct. ``slows_local`` adds links within a region too,
    initially without delay, so that they can be slowed.
    """

    def __init__(
        self,
        root: Path,
        regions: Sequence[str],
        *,
        each: int = 1,
        spares: Sequence[str] = (),
        viewers: Sequence[str] = (),
        has_links: bool = True,
        slows_local: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(root, count=0, settings=settings)
        self.regions = tuple(regions)
        self._viewers = (*regions, *viewers)
        self._regions_of = {
            root / f"{region}-{number}": region for region in regions for number in range(each)
        }
        self.directories = list(self._regions_of)
        self.spares = [root / f"{region}-spare{i}" for i, region in enumerate(spares)]
        self._regions_of.update(zip(self.spares, spares, strict=True))
        self._has_links = has_links
        self._slows_local = slows_local
        self._ports: dict[str, int] = {}
        self._wan = ManagedProcess(
            "wan links",
            python_command("bench.harness.wan_links"),
            root / "wan-links.log",
            environ=os.environ,
            has_input=True,
            has_output=True,
        )

    def __enter__(self) -> Self:
        self._wan.start()
        try:
            links = [self._link(viewer, directory) for viewer, directory in self._pairs()]
            self._ports = self._send(open=links)["ports"]
            return super().__enter__()
        except BaseException:
            self._wan.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._wan.stop()

    # --- overrides of the base class --------------------------------------------------------------

    def region_of(self, directory: Path) -> str:
        """Return the region of a bookie."""
        return self._regions_of[directory]

    def environment_of(self, directory: Path) -> Mapping[str, str]:
        """Return the environment, with the address that the bookie advertises to each region."""
        addresses = {
            f"RHUMBLINE_BOOKIE__ADVERTISED_ADDRESSES__{viewer.upper()}": (
                f"{HOST}:{self._ports[self._link(viewer, bookie)]}"
            )
            for viewer, bookie in self._pairs()
            if bookie == directory
        }
        return {**super().environment_of(directory), **addresses}

    def start(self, *directories: Path) -> None:
        """Start processes and point their links to them. Raises UnavailableError."""
        super().start(*directories)
        for directory in directories:
            port = self._processes[directory].port
            for viewer, other in self._pairs():
                if other == directory:
                    self._send(target=self._link(viewer, other), port=port)

    def _start(self) -> None:
        directories, self.directories = self.directories, [*self.directories, *self.spares]
        try:
            self._format()
        finally:
            self.directories = directories
        self.start(*directories)

    # --- links ------------------------------------------------------------------------------------

    def set_round_trip(self, between_ms: float) -> None:
        """Set the round trip between all pairs of different regions."""
        self._send(
            delay_ms={
                self._link(viewer, directory): between_ms / 2
                for viewer, directory in self._pairs()
                if viewer != self._regions_of[directory]
            }
        )

    def set_delay(self, viewer: str, directory: Path, each_way_ms: float) -> None:
        """Set the one-way delay between one region and one bookie."""
        self._send(delay_ms={self._link(viewer, directory): each_way_ms})

    def cut(self, region: str) -> None:
        """Cut all links between a region and the others."""
        self._send(cut=self._links_of(region))

    def heal(self, region: str) -> None:
        """Reconnect the links of a region and deliver the bytes that were held."""
        self._send(heal=self._links_of(region))

    def bytes_to(self, region: str) -> int:
        """Return the bytes that bookies of other regions have sent to a region."""
        counts = self._send(counts=True)["received_bytes"]
        links = [self._link(*pair) for pair in self._pairs() if pair[0] == region]
        return sum(counts[link] for link in links)

    def _links_of(self, region: str) -> list[str]:
        return [
            self._link(viewer, directory)
            for viewer, directory in self._pairs()
            if (viewer == region) != (self._regions_of[directory] == region)
        ]

    def _pairs(self) -> list[tuple[str, Path]]:
        return [
            (viewer, directory)
            for directory, region in self._regions_of.items()
            for viewer in self._viewers
            if self._has_links and (viewer != region or self._slows_local)
        ]

    @staticmethod
    def _link(viewer: str, directory: Path) -> str:
        return f"{viewer}>{directory.name}"

    def _send(self, **command: object) -> dict[str, Any]:
        self._wan.write_line(json.dumps(command).encode())
        reply: dict[str, Any] = json.loads(self._wan.read_line())
        return reply
