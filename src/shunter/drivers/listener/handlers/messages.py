"""Makes kio's entities from plain values: one description serves every version of an API.

A value is left out if the version has no field for it, as Kafka's serializers do with ignorable fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from kio.schema.errors import ErrorCode as KioErrorCode

Values = Mapping[str, Any]


class _Field(NamedTuple):
    name: str
    convert: Callable[[Any], Any]
    absent: Any
    required: bool


def filled(schema: Any, values: Values) -> Any:
    """Make an entity of `schema`.

    Args:
        schema: kio's class.
        values: by field name; arrays of entities as iterables of such mappings, error codes as integers, times in
            milliseconds. A field without a value gets the schema's default, or else: no error, no time, false, null, an
            empty array.

    Raises:
        KeyError: a field has neither a value nor any of these defaults.
    """
    made: dict[str, Any] = {}
    for name, convert, absent, required in _fields(schema):
        if name in values:
            made[name] = convert(values[name])
        elif required:
            made[name] = values[name] if absent is _MISSING else absent
    return schema(**made)


_MISSING = object()
_ERROR_CODES: dict[int, KioErrorCode] = {int(code): code for code in KioErrorCode}


@cache
def _fields(schema: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(schema)
    return tuple(_plan(field, hints[field.name]) for field in dataclasses.fields(schema))


def _plan(field: dataclasses.Field[Any], declared: Any) -> _Field:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    nullable = NoneType in get_args(declared)
    if nullable:
        (declared,) = (option for option in get_args(declared) if option is not NoneType)
    if get_origin(declared) is tuple:
        element = get_args(declared)[0]
        return _Field(field.name, _array(element, nullable=nullable), None if nullable else (), required)
    kind = field.metadata.get("kafka_type")
    if kind == "error_code":
        return _Field(field.name, _error_code, KioErrorCode.none, required)
    if kind in {"timedelta_i32", "timedelta_i64"}:
        return _Field(field.name, _milliseconds, timedelta(), required)
    if kind == "bool":
        return _Field(field.name, _same, False, required)
    return _Field(field.name, _same, None if nullable else _MISSING, required)


def _same(value: Any) -> Any:
    return value


def _error_code(value: int) -> KioErrorCode:
    return _ERROR_CODES.get(int(value), KioErrorCode.unknown_server_error)


def _milliseconds(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def _array(element: Any, *, nullable: bool) -> Callable[[Iterable[Any] | None], Any]:
    nested = dataclasses.is_dataclass(element)

    def convert(items: Iterable[Any] | None) -> Any:
        if items is None:
            return None if nullable else ()
        return tuple(filled(element, item) for item in items) if nested else tuple(items)

    return convert
