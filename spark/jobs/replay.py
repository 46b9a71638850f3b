"""The job ``replay``: an archive becomes records of a stream again, once."""

from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """What goes where. ``starting`` and ``ending`` are as the options of the data source."""

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
        """The same archive from the same start into the same stream is one replay."""
        return f"replay {self.cold} {self.source_namespace}/{self.source} {self.starting}"


def replay(spark: SparkSession, plan: ReplayJob) -> None:
    """Appends the archived records to the target, in order, by one task.

    A repeat goes on where the last one ended, also when the archive has grown meanwhile. Records
    get new positions, and keep their txids if so asked; then the target's last txid may not be
    above the first. Raises what Spark raises.
    """
    rows = (
        spark.read.format("rhumbline")
        .option("archive", plan.cold)
        .option("namespace", plan.source_namespace)
        .option("subscribe", plan.source)
        .option("startingOffsets", plan.starting)
        .option("endingOffsets", plan.ending)
        .option("columns", "txid,payload")
        .load()
    )
    writing = (
        rows.coalesce(1)  # one task reads the splits in order
        .write.format("rhumbline")
        .option("metadata", plan.metadata)
        .option("namespace", plan.namespace)
        .option("stream", plan.target)
        .option("keepTxids", str(plan.keeps_txids).lower())
        .option("writeId", plan.write_id)
    )
    if plan.region is not None:
        writing = writing.option("region", plan.region)
    writing.mode("append").save()
