"""Numba's view of what kernels take: a record is a pointer to the words of its arrays, which do not change.

Numba would copy a named tuple of arrays word by word wherever a kernel takes it or passes it on, which was most of the
time of compiling.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import populate_array

from batfill.base.kernels import array_type, words_in

WORD = ir.IntType(64)


class Record(types.Type):
    """A record; `places` are the first words of its fields."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.fields, self.places, self.words = kind, {}, {}, 0
        for field, column in kind.columns.items():
            self.fields[field], self.places[field] = type_of(column), self.words
            self.words += words_in(column)
        columns = "".join(f"{field} {each.name} " for field, each in self.fields.items())
        super().__init__(f"{kind.__module__}.{kind.__name__}.{sha256(columns.encode()).hexdigest()[:16]}")

    def __reduce__(self) -> Any:
        """By its class."""
        return type_of, (self.kind,)


@cache
def type_of(kind: Any) -> types.Type:
    """Numba's type of what a kernel takes."""
    if kind is float or kind is int:
        return types.float64 if kind is float else types.int64
    if isinstance(kind, type):
        return Record(kind)
    dtype, ndim, _ = array_type(kind)
    return types.Array(numba.from_dtype(dtype), ndim, "C")


@register_default(Record)
class PointerModel(models.PrimitiveModel):
    """A pointer to words."""

    def __init__(self, manager: Any, kind: types.Type) -> None:
        super().__init__(manager, kind, WORD.as_pointer())


@infer_getattr
class Fields(AttributeTemplate):
    """A record's fields."""

    key = Record

    def generic_resolve(self, kind: Record, name: str) -> types.Type | None:
        """The type of a field."""
        return kind.fields.get(name)


@lower_getattr_generic(Record)
def field_of(context: Any, builder: Any, kind: Record, pointer: Any, name: str) -> Any:
    """A field's value."""
    return value_at(context, builder, kind.fields[name], place_in(builder, pointer, kind.places[name]))


def place_in(builder: Any, pointer: Any, place: int) -> Any:
    """A pointer to a word."""
    return builder.gep(pointer, [ir.Constant(ir.IntType(32), place)], inbounds=True)


def word_at(builder: Any, pointer: Any, place: int) -> Any:
    """A word, which is the same at each load."""
    word = builder.load(place_in(builder, pointer, place))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def value_at(context: Any, builder: Any, kind: types.Type, pointer: Any) -> Any:
    """The value whose words a pointer points to."""
    if isinstance(kind, Record):
        return pointer
    word = word_at(builder, pointer, 0)
    if isinstance(kind, types.Float):
        return builder.bitcast(word, ir.DoubleType())
    if isinstance(kind, types.Integer):
        return word
    made = cgutils.create_struct_proxy(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape = [word_at(builder, pointer, 1 + axis) for axis in range(kind.ndim)]
    strides = [WORD(size)]
    for n in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], n))
    data = builder.inttoptr(word, made.data.type)
    populate_array(made, data, shape, strides, WORD(size), None)
    return made._getvalue()
