"""Records what the metadata store holds about feature levels, and in which formats values are."""

from ....core.metadata.cluster_layout import Paths
from ....core.metadata.feature_levels import FeatureRecord
from ....server.server_directory import ROOT as SERVERS
from ....server.upgrade.process_versions import PROCESSES
from ...checker.upgrades.upgrade_use import LevelRise, RegisteredNode, StoredLevel, UpgradeUse
from ..world.metadata import RecordedTree
from .program import in_todays_format, is_next_format
from .versioned_store import VersionedProcess

_LEVEL = Paths().feature_level
_REGISTRATIONS = (PROCESSES, SERVERS, Paths().available, Paths().read_only)


class RecordedLevels:
    """Observes the commits of a tree. The record of the run has them in today's format."""

    def __init__(self, tree: RecordedTree, use: UpgradeUse) -> None:
        self.owners: dict[str, VersionedProcess] = {}
        """The process of each session."""
        self._tree = tree
        self._use = use
        tree.recorded = self._recorded

    def end_sessions(self, host: str) -> None:
        """End the sessions of all processes that ran on a host."""
        for owner, running in self.owners.items():
            if running.process.rpartition("/")[0] == host:
                self._tree.end_session(owner)

    def _recorded(self, path: str, data: bytes, at_ms: float) -> bytes:
        if path == _LEVEL:
            self._add_level(FeatureRecord.decode(data), at_ms)
        if not is_next_format(data):
            return data
        self._use.written.append((at_ms, path))
        return in_todays_format(data)

    def _add_level(self, record: FeatureRecord, at_ms: float) -> None:
        stored = self._use.stored
        intended_ms = stored[-1].at_ms if stored else at_ms
        before = stored[-1].level if stored else FeatureRecord().level
        stored.append(StoredLevel(at_ms, *record))
        if record.level >= self._use.level > before:
            self._use.rises.append(LevelRise(at_ms, intended_ms, tuple(self._registered())))

    def _registered(self) -> list[RegisteredNode]:
        found = []
        for path, node in self._tree.nodes():
            if node.owner is None or path.rpartition("/")[0] not in _REGISTRATIONS:
                continue
            running = self.owners[node.owner]
            newest = running.program.levels.newest
            found.append(RegisteredNode(path, running.process, newest, self._since_ms(path)))
        return found

    def _since_ms(self, path: str) -> float:
        """Return when the node that is at ``path`` now was created."""
        since_ms = 0.0
        for commit in reversed(self._tree.history):
            if commit.path == path:
                if commit.data is None:
                    break
                since_ms = commit.at_ms
        return since_ms
