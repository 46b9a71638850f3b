"""The data source ``rhumbline`` itself: what Spark asks for by name."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ..core.protocol.errors import ConfigurationError
from .read.batch import FilteringBatchReader, RhumblineBatchReader
from .read.columns import spark_schema
from .read.options import parse_options
from .read.streaming import RhumblineStreamReader
from .write.sink import BatchSink, StreamSink
from .write.write_options import WriteOptions, parse_write_options


class RhumblineSource(DataSource):
    """Streams as rows, and rows as records.

    The options are those of ``options.Options`` and ``write_options.WriteOptions``.
    """

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
        options = parse_options(self.options, is_streaming=False)
        return (
            FilteringBatchReader(options)
            if options.pushes_filters
            else RhumblineBatchReader(options)
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a streaming query."""
        return RhumblineStreamReader(parse_options(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Of a batch."""
        return BatchSink(self._write_options(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Of a streaming query."""
        return StreamSink(self._write_options(schema, overwrite))

    def _write_options(self, schema: StructType, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise ConfigurationError("rhumbline sink: a log is appended to; use mode append")
        return parse_write_options(self.options, schema)
