"""The shapes of Arrow schemas, which are also those of Parquet files."""

from base64 import b64decode

import pyarrow as pa

from .shape import Fields, FieldShape, Items, Scalar, Shape


def arrow_shape(definition: str) -> Shape:
    """Return the shape of an Arrow schema. Raises ValueError if malformed."""
    schema = pa.ipc.read_schema(pa.py_buffer(b64decode(definition, validate=True)))
    return _fields(list(schema))


def _fields(fields: list[pa.Field]) -> Shape:
    return Fields(
        {
            field.name: FieldShape(_shape(field.type), not field.nullable, not field.nullable)
            for field in fields
        }
    )


def _shape(kind: pa.DataType) -> Shape:
    if pa.types.is_struct(kind):
        return _fields([kind.field(index) for index in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Items(_shape(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _shape(kind.value_type)
    return Scalar(str(kind))
