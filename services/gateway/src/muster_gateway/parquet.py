"""Rows of text as a Parquet file with types."""

import io
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_arrow: Any = pa
_files: Any = pq


class ColumnType(StrEnum):
    """What the text of a column says. Times are RFC 3339 in UTC."""

    TEXT = "text"
    MONEY = "money"
    QUANTITY = "quantity"
    INTEGER = "integer"
    TIME = "time"


_TYPES: Mapping[ColumnType, Any] = {
    ColumnType.TEXT: _arrow.string(),
    ColumnType.MONEY: _arrow.decimal128(38, 9),
    ColumnType.QUANTITY: _arrow.decimal128(38, 12),
    ColumnType.INTEGER: _arrow.int64(),
    ColumnType.TIME: _arrow.timestamp("ms", tz="UTC"),
}


def parquet(
    columns: Sequence[str],
    rows: Iterable[Mapping[str, str | None]],
    types: Mapping[str, ColumnType],
) -> bytes:
    """The file; columns without a type are text, and None is null."""
    values: dict[str, list[str | None]] = {name: [] for name in columns}
    for row in rows:
        for name in columns:
            values[name].append(row[name])
    arrays = [
        _arrow.array(values[name], _arrow.string()).cast(_TYPES[types.get(name, ColumnType.TEXT)])
        for name in columns
    ]
    sink = io.BytesIO()
    _files.write_table(_arrow.Table.from_arrays(arrays, names=list(columns)), sink)
    return sink.getvalue()
