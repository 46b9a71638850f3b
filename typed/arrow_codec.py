"""The codec of Arrow record batches: one payload holds many rows."""

from base64 import b64encode

import pyarrow as pa

from ..core.log.metadata.stream_schema import SchemaKind, StreamSchema
from ..core.protocol.errors import PayloadError
from .payload_codec import PayloadCodec


class ArrowCodec(PayloadCodec[pa.RecordBatch]):
    """Record batches of one Arrow schema, in Arrow's streaming format.

    The schema of a Parquet file is one too: ``pyarrow.parquet.read_schema`` returns it. A batch
    that was written with another schema is cast to this one; nullable columns that it lacks are
    null.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._arrow = schema.remove_metadata()
        encoded = b64encode(self._arrow.serialize().to_pybytes()).decode("ascii")
        self._schema = StreamSchema(SchemaKind.ARROW, encoded)

    @property
    def schema(self) -> StreamSchema:
        """The schema of the batches."""
        return self._schema

    def encode(self, value: pa.RecordBatch) -> bytes:
        """See ``PayloadCodec``. The columns must be those of the schema, in its order."""
        if not isinstance(value, pa.RecordBatch):
            raise PayloadError(f"{type(value).__name__} is not a pyarrow.RecordBatch")
        if not value.schema.equals(self._arrow):
            raise PayloadError(f"the batch has the schema {str(value.schema)[:500]}")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._arrow) as writer:
            writer.write_batch(value)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def decode(self, payload: bytes) -> pa.RecordBatch:
        """See ``PayloadCodec``."""
        try:
            with pa.ipc.open_stream(payload) as reader:
                batch = reader.read_next_batch()
            batch.validate()
            columns = [self._column(batch, field) for field in self._arrow]
            return pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        except (pa.ArrowException, StopIteration, OSError) as error:
            raise PayloadError(f"the payload does not fit the schema: {error}") from error

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        index = batch.schema.get_field_index(field.name)
        if index >= 0:
            return batch.column(index).cast(field.type)
        if not field.nullable:
            raise PayloadError(f"the payload lacks the column {field.name}, which is not nullable")
        return pa.nulls(batch.num_rows, field.type)
