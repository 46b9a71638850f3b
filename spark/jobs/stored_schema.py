"""The columns of Spark for the schemas that a stream has stored, and values that fit them."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ...typed import SchemaHistory
from ...typed.plain_decoder import PlainDecoder, only_value
from ...typed.shapes.shape import Entries, Fields, Items, Scalar, Shape

_SCALARS: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "uint32": LongType(),
    "uint64": DecimalType(20, 0),
    "integer": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "number": DoubleType(),
    "bytes": BinaryType(),
}


class StoredSchemaDecoder:
    """Decodes payloads by a stream's schemas to values of Spark's types.

    Objects are sent to executors with the schemas alone. Raises InvalidArgumentError as
    ``PlainDecoder``.
    """

    def __init__(self, history: SchemaHistory) -> None:
        self._history = history
        self._decoder = PlainDecoder(history)
        self.columns = _struct(self._decoder.shape)
        """The columns of a payload."""

    def __reduce__(self) -> tuple[type["StoredSchemaDecoder"], tuple[SchemaHistory]]:
        return StoredSchemaDecoder, (self._history,)

    def __call__(self, payload: bytes) -> Mapping[str, Any]:
        """Return the columns of a payload. Raises PayloadError, ValueError or TypeError."""
        found = self._decoder.decode(payload)
        return {one.name: _fitted(found.get(one.name), one.dataType) for one in self.columns.fields}


def _struct(shape: Fields) -> StructType:
    return StructType([StructField(name, _type(one.shape)) for name, one in shape.members.items()])


def _type(shape: Shape) -> DataType:
    """Return the type of a shape; what Spark has no type for is a string with JSON."""
    match only_value(shape):
        case Scalar(name) if name.startswith("fixed("):
            return BinaryType()
        case Scalar(name):
            return _SCALARS.get(name, StringType())
        case Items(item):
            return ArrayType(_type(item))
        case Entries(value):
            return MapType(StringType(), _type(value))
        case Fields() as fields if fields.members:
            return _struct(fields)
    return StringType()


def _fitted(value: Any, wanted: DataType) -> Any:  # noqa: ANN401 - any value of a payload
    """Return ``value`` as a value of the type. Raises ValueError or TypeError if it has none."""
    if value is None:
        return None
    match wanted:
        case StructType():
            return tuple(_fitted(value.get(one.name), one.dataType) for one in wanted.fields)
        case ArrayType():
            return [_fitted(one, wanted.elementType) for one in value]
        case MapType():
            return {name: _fitted(one, wanted.valueType) for name, one in value.items()}
    return _fitted_scalar(value, wanted)


def _fitted_scalar(value: Any, wanted: DataType) -> Any:  # noqa: ANN401 - any value of a payload
    match wanted:
        case StringType():
            return value if isinstance(value, str) else json.dumps(value, default=str)
        case BinaryType():
            return bytearray(value.encode() if isinstance(value, str) else value)
        case BooleanType():
            if not isinstance(value, bool):
                raise TypeError(f"{value!r:.50} is not a boolean")
            return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.50} is not a number")
    if isinstance(wanted, DoubleType | FloatType):
        return float(value)
    if value != int(value):
        raise ValueError(f"{value!r:.50} is not a whole number")
    return Decimal(int(value)) if isinstance(wanted, DecimalType) else int(value)
