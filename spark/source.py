"""The entry point of the data source ``rhumbline``, which Spark instantiates by its name."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ..core.protocol.errors import ConfigurationError
from .read.batch import RhumblineBatchReader
from .read.columns import spark_schema
from .read.options import parse_options
from .read.streaming import RhumblineStreamReader
from .write.sink import BatchSink, StreamSink
from .write.write_options import WriteOptions, parse_write_options


class RhumblineSource(DataSource):
    """Reads records of streams as rows, and writes rows as records.

    The options are those of ``options.Options`` for reading and ``write_options.WriteOptions`` for
    writing.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rhumbline"

    def schema(self) -> str:
        """Return the schema of the requested columns; all columns by default."""
        # Spark does not pass whether the query is a streaming one, so only the columns are parsed.
        options = {name.lower(): value for name, value in self.options.items()}
        column_options = {"subscribe": "any", "archive": "any"}
        if "columns" in options:
            column_options["columns"] = options["columns"]
        return spark_schema(parse_options(column_options, is_streaming=False).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return RhumblineBatchReader(parse_options(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        return RhumblineStreamReader(parse_options(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch query."""
        return BatchSink(self._write_options(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a streaming query."""
        return StreamSink(self._write_options(schema, overwrite))

    def _write_options(self, schema: StructType, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise ConfigurationError(
                'rhumbline sink: a stream cannot be overwritten; use mode("append")'
            )
        return parse_write_options(self.options, schema)
