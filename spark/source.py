"""The data source ``rhumbline`` itself: what Spark asks for by name."""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from .batch import BatchReader
from .columns import spark_schema
from .options import parse_options
from .streaming import StreamReader


class RhumblineSource(DataSource):
    """Streams as rows. The options are those of ``options.Options``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rhumbline"

    def schema(self) -> str:
        """The columns that were asked for; all of them by default."""
        # Whether it is a streaming query is not known here, so only the columns are looked at.
        given = {name.lower(): value for name, value in self.options.items()}
        needed = {"subscribe": "any", "archive": "any"}
        if "columns" in given:
            needed["columns"] = given["columns"]
        return spark_schema(parse_options(needed, is_streaming=False).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch."""
        return BatchReader(parse_options(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a streaming query."""
        return StreamReader(parse_options(self.options, is_streaming=True))
