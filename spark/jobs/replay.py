"""The job ``replay``: appends archived records to a stream, exactly once."""

from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The source and target of a replay.

    ``starting`` and ``ending`` are values of the options ``startingOffsets`` and ``endingOffsets``.
    """

    cold: str
    source_namespace: str
    source: str
    metadata: str
    namespace: str
    region: str | None
    target: str
    keeps_txids: bool = True
    starting: str = "earliest"
    ending: str = "latest"

    @property
    def write_id(self) -> str:
        """The write id: repeats with the same archive, stream and start are one replay."""
        return f"replay {self.cold} {self.source_namespace}/{self.source} {self.starting}"


def replay(spark: SparkSession, job: ReplayJob) -> None:
    """Append the archived records to the target stream in order, in one task.

    A repeat continues where the last run ended, also if the archive has grown meanwhile. Records
    get new positions. With ``keeps_txids`` they keep their txids; the last txid of the target must
    then not be above the first archived one. Raises the errors of Spark.
    """
    rows = (
        spark.read.format("rhumbline")
        .option("archive", job.cold)
        .option("namespace", job.source_namespace)
        .option("subscribe", job.source)
        .option("startingOffsets", job.starting)
        .option("endingOffsets", job.ending)
        .option("columns", "txid,payload,key,headers,event_time")
        .load()
    )
    writing = (
        rows.coalesce(1)  # one task reads the splits in order
        .write.format("rhumbline")
        .option("metadata", job.metadata)
        .option("namespace", job.namespace)
        .option("stream", job.target)
        .option("keepTxids", str(job.keeps_txids).lower())
        .option("writeId", job.write_id)
    )
    if job.region is not None:
        writing = writing.option("region", job.region)
    writing.mode("append").save()
