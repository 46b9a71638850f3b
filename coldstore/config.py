"""Settings of archives."""

from dataclasses import dataclass

from ..core.runtime.settings import check_settings, setting

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ArchiveConfig:
    """Settings of the processes that write archives. Raises ConfigurationError."""

    part_bytes: int = setting(
        128 * MIB,
        "Size, after compression, at which a part file ends. A part is one or more whole row "
        "groups of one segment. The process holds one part in memory.",
        low=1,
        high=192 * MIB,
    )
    row_group_bytes: int = setting(
        16 * MIB,
        "Size of payloads, keys and headers at which a row group ends, before compression. A row "
        "group also ends after 524,288 records. Readers of archives hold two row groups in memory.",
        low=1,
        high=48 * MIB,
    )

    tables: str = setting(
        "",
        "URI of the Iceberg catalogue in which each archived stream is a table: "
        "sqlite:///path/catalog.db, https://host/path of a REST catalogue, thrift://host:9083 of a "
        "Hive metastore, or glue://region. Empty: no tables.",
    )
    tables_interval_ms: int = setting(
        10_000,
        "Pause between two passes in which archive serve registers archived segments in tables.",
        low=1,
    )

    tables_snapshots_kept_ms: int = setting(
        5 * 24 * 3600 * 1000,
        "How long snapshots of tables are kept, except the current one and those that branches or "
        "tags name. Older ones are removed in groups when a segment is registered.",
        low=1,
    )
    index_interval_ms: int = setting(
        10_000,
        "Pause between two passes in which archive serve writes changes to the index of the "
        "namespace, by which queries over many streams are planned.",
        low=1,
    )

    def __post_init__(self) -> None:
        check_settings(self, "archive")
