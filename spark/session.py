"""Makes the data source known to a Spark session."""

from pyspark.sql import SparkSession

from .source import RhumblineSource

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Registers the format ``rhumbline``, and lets Spark push filters to Python data sources.

    ``spark.read.format("rhumbline").option(...).load()``; the options are in ``options``. A repeat
    is safe.
    """
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RhumblineSource)
