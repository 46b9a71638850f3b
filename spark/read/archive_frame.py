"""Reads verified archives with Spark's own Parquet reader, which is faster than a Python source.

Spark's reader verifies neither footers nor column chunks, so a Spark job verifies them before: by
the digests in the manifests, which the chain proves (rule ARC-51).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from ...coldstore.proof.verify_columns import PlannedFile
from ...coldstore.stores.open_store import ColdStoreOpener
from ...core.protocol.errors import ConfigurationError, CorruptionError
from ..hadoop_stores import HadoopStore
from .columns import ALL_COLUMNS, spark_schema, stored_columns
from .data_loss import data_loss_error, log_data_loss
from .file_checks import check_files
from .options import Options, parse_options
from .planner import Planner
from .splits import ArchiveSplit

_BOUNDS = ("Offsets", "Timestamp", "OffsetsByTimestamp")
_OPTIONS = {
    *("archive", "namespace", "subscribe", "subscribePattern", "columns", "failOnDataLoss"),
    *(f"{side}{bound}" for side in ("starting", "ending") for bound in _BOUNDS),
    "startingOffsetsByTimestampStrategy",
}
_STORED = [name for name in ALL_COLUMNS if name not in ("stream", "dlsn")]
STREAM_IN_PATH = r"/([^/]+)/(?:_staged/[0-9a-f]+/staged-[^/]+|[0-9a-f]+/(?!staged-)[^/]+)$"
"""A stream may have the name of the folder of staged files."""
_READER = {
    "parquet.filter.bloom.enabled": "false",
    "parquet.filter.columnindex.enabled": "false",
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
}
"""Spark does not read what no digest of the manifest covers: Bloom filters and indexes of pages.
The checksums of pages find damage to a file that occurs after it was verified."""


def read_archive(spark: SparkSession, **options: str) -> DataFrame:
    """Return the records of an archive, for Spark's own Parquet reader to read.

    The options and columns are those of the data source. Only options that select records or
    columns are allowed, and no cluster is contacted. Before this function returns, a Spark job
    verifies the requested columns of all files that hold the records. Records that are archived
    later are not in the frame. A query on the frame fails if a file was deleted meanwhile, for
    example by a compaction whose grace period has ended. The records have no order.

    Raises ConfigurationError, NoSuchStreamError, CorruptionError, GapError if records are missing
    and ``failOnDataLoss`` is not ``false``, and the errors of the cold store.
    """
    known = {name.lower() for name in _OPTIONS}
    refused = sorted(name for name in options if name.lower() not in known)
    if refused:
        raise ConfigurationError(
            f"read_archive: {', '.join(refused)}: not an option for reading an archive alone; use "
            'spark.read.format("rhumbline")'
        )
    parsed = parse_options(options, is_streaming=False)
    assert parsed.archive is not None, "no cluster can be set"
    store = HadoopStore(spark, parsed.archive)
    store.check()
    spark.sparkContext.environment.update(store.settings)
    splits = planned_files(parsed, store.opener)
    has_others = _verified(spark, parsed, splits)
    streams = {split.stream for key in has_others for split in splits[key]}
    stream = sql.lit(*streams) if len(streams) == 1 else _stream_in_path()
    whole = [key for key, others in has_others.items() if not others]
    frames = [_parquet(spark, store.path, whole, stream)] if whole else []
    for key in sorted(has_others.keys() - set(whole)):
        wanted = [_in_split(split) for split in splits[key]]
        frames.append(
            _parquet(spark, store.path, [key], stream).where(reduce(Column.__or__, wanted))
        )
    empty = [] if frames else [spark.createDataFrame([], spark_schema(ALL_COLUMNS))]
    return reduce(DataFrame.union, frames + empty).select(*parsed.columns)


def planned_files(
    options: Options, open_cold: ColdStoreOpener | None = None
) -> dict[str, list[ArchiveSplit]]:
    """Return what a query needs of each file of the archive, by key.

    Without ``open_cold``, the archive is opened with the settings of this process. Manifests, tips
    and relocations are verified; the files are not read. Raises the errors of the data source.
    """
    planner = Planner(options, open_cold)
    found: dict[str, list[ArchiveSplit]] = defaultdict(list)
    try:
        planner.begin()
        for stream in planner.streams():
            start, stop = planner.start(stream), planner.stop(stream)
            for split in planner.splits(stream, start, stop):
                assert isinstance(split, ArchiveSplit), "no cluster can be set"
                found[split.key].append(split)
    finally:
        planner.close()
    return found


def _verified(
    spark: SparkSession, options: Options, splits: Mapping[str, Sequence[ArchiveSplit]]
) -> dict[str, bool]:
    """Verify the files; return for each one True if it has records that the query does not need.

    Without ``failOnDataLoss``, missing files are logged and left out.
    """
    assert options.archive is not None
    files = [planned_file(key, few) for key, few in splits.items()]
    checked = check_files(spark, options.archive, files, stored_columns(options.columns))
    faults = [one.fault for one in checked.values() if one.fault]
    if faults:
        more = f" (and {len(faults) - 1} more files)" if len(faults) > 1 else ""
        raise CorruptionError(f"{faults[0]}{more}")
    for split in (split for key in splits if checked[key].is_missing for split in splits[key]):
        if options.fails_on_data_loss:
            raise data_loss_error(split.stream, *split.bounds)
        log_data_loss(split.stream, *split.bounds)
    return {key: checked[key].has_others for key in splits if not checked[key].is_missing}


def planned_file(key: str, splits: Sequence[ArchiveSplit]) -> PlannedFile:
    """Return a file with the parts that a query needs of it."""
    needed = sum(split.part.record_count for split in splits if split.is_whole)
    return PlannedFile(key, tuple(split.part for split in splits), needed)


def _parquet(spark: SparkSession, root: str, keys: Iterable[str], stream: Column) -> DataFrame:
    """Return the records of files, with all columns of the data source."""
    paths = [re.sub(r"([{}\[\]*?\\])", r"\\\1", f"{root}/{key}") for key in keys]
    files = spark.read.schema(spark_schema(_STORED)).options(**_READER).parquet(*paths)
    dlsn = sql.concat_ws(":", "lssn", "entry_id", "slot")
    return files.select(stream.alias("stream"), *_STORED, dlsn.alias("dlsn")).select(*ALL_COLUMNS)


def _stream_in_path() -> Column:
    return sql.regexp_extract("_metadata.file_path", STREAM_IN_PATH, 1)


def _in_split(split: ArchiveSplit) -> Column:
    """Return the condition for the records of a split, which Spark uses to skip row groups."""
    first, stop = split.bounds
    lssn, entry, slot = sql.col("lssn"), sql.col("entry_id"), sql.col("slot")
    after = (entry > first.entry_id) | ((entry == first.entry_id) & (slot >= first.slot))
    before = (entry < stop.entry_id) | ((entry == stop.entry_id) & (slot < stop.slot))
    return (lssn == split.lssn) & (entry >= first.entry_id) & after & before
