# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Shapes of tensors, whose sizes or rank may be unknown."""
from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

from millrace.python import _engine

_TENSORSHAPE_V2_OVERRIDE: Optional[bool] = False


def enable_v2_tensorshape() -> None:
    """Makes indexing of a TensorShape return numbers instead of Dimensions."""
    global _TENSORSHAPE_V2_OVERRIDE
    _TENSORSHAPE_V2_OVERRIDE = True


def disable_v2_tensorshape() -> None:
    """Makes indexing of a TensorShape return Dimensions."""
    global _TENSORSHAPE_V2_OVERRIDE
    _TENSORSHAPE_V2_OVERRIDE = False


def dimension_value(dimension: Any) -> Any:
    """The number, or None, of a Dimension or of a value that is one already."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """The Dimension at an index; unknown when the rank is."""
    if not isinstance(shape, TensorShape):
        raise TypeError("Expected a TensorShape, got %r." % (shape,))
    if shape.rank is None:
        return Dimension(None)
    if not -shape.rank <= index < shape.rank:
        raise ValueError("There is no dimension %s in the shape %s." % (index, shape))
    return shape.dims[index]


class Dimension:
    """One size of a TensorShape; `value` is a number, or None when it is unknown."""

    __slots__ = ["_value"]

    def __init__(self, value: Any) -> None:
        if value is None:
            self._value = None
        elif isinstance(value, Dimension):
            self._value = value._value
        else:
            if hasattr(value, "as_datatype_enum"):
                raise TypeError("Cannot convert %s to Dimension" % value)
            try:
                self._value = int(value)
            except OverflowError:
                raise ValueError("Ambiguous dimension: %s" % value) from None
            if (
                not isinstance(value, (str, bytes))
                and not hasattr(value, "__index__")
                and self._value != value
            ):
                raise ValueError("Ambiguous dimension: %s" % value)
            if self._value < 0:
                raise ValueError("Dimension %d must be >= 0" % self._value)

    @property
    def value(self) -> Optional[int]:
        return self._value

    def __repr__(self) -> str:
        return "Dimension(%s)" % repr(self._value)

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __eq__(self, other: Any) -> Any:
        try:
            other = as_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other._value is None:
            return None
        return self._value == other._value

    def __ne__(self, other: Any) -> Any:
        try:
            other = as_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other._value is None:
            return None
        return self._value != other._value

    __hash__ = None  # type: ignore[assignment]

    def __int__(self) -> Any:
        return self._value

    def __long__(self) -> Any:
        return self._value

    def __index__(self) -> Any:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether the two may be the same size."""
        other = as_dimension(other)
        return self._value is None or other._value is None or self._value == other._value

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError("Dimensions %s and %s are not compatible" % (self, other))

    def merge_with(self, other: Any) -> Dimension:
        """Merges both dimensions; ValueError when they differ."""
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return Dimension(other._value if self._value is None else self._value)

    def _combine(self, other: Any, compute: Any) -> Any:
        try:
            other = as_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other._value is None:
            return Dimension(None)
        return Dimension(compute(self._value, other._value))

    def __add__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __floordiv__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: a // b)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: b // a)

    def __div__(self, other: Any) -> Any:
        return self // other

    def __rdiv__(self, other: Any) -> Any:
        return self.__rfloordiv__(other)

    def __truediv__(self, other: Any) -> Any:
        raise TypeError(
            "unsupported operand type(s) for /: 'Dimension' and '%s', please use // instead"
            % type(other).__name__
        )

    def __rtruediv__(self, other: Any) -> Any:
        raise TypeError(
            "unsupported operand type(s) for /: '%s' and 'Dimension', please use // instead"
            % type(other).__name__
        )

    def __mod__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: a % b)

    def __rmod__(self, other: Any) -> Any:
        return self._combine(other, lambda a, b: b % a)

    def _compare(self, other: Any, compute: Any) -> Any:
        other = as_dimension(other)
        if self._value is None or other._value is None:
            return None
        return compute(self._value, other._value)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a < b)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a <= b)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a >= b)

    def __reduce__(self) -> Any:
        return Dimension, (self._value,)


def as_dimension(value: Any) -> Dimension:
    """`value` as a Dimension: a number, None or a Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def _size_text(value: Optional[int]) -> str:
    return "?" if value is None else str(value)


class TensorShape:
    """The shape of a tensor: known, or of a known rank with some sizes unknown, or entirely unknown."""

    __slots__ = ("_sizes", "__weakref__")

    def __init__(self, dims: Any) -> None:
        # None, or a tuple of numbers and None.
        self._sizes: Optional[tuple[Optional[int], ...]]
        if dims is None:
            self._sizes = None
        elif isinstance(dims, TensorShape):
            self._sizes = dims._sizes
        elif type(dims) is tuple and all(type(d) is int and d >= 0 or d is None for d in dims):
            self._sizes = dims
        else:
            self._sizes = self._convert(dims)

    @staticmethod
    def _convert(dims: Any) -> Optional[tuple[Optional[int], ...]]:
        if hasattr(dims, "unknown_rank") and hasattr(dims, "dim"):  # a TensorShapeProto
            if dims.unknown_rank:
                return None
            return tuple(None if dim.size == -1 else dim.size for dim in dims.dim)
        if isinstance(dims, (str, bytes)):
            raise TypeError(
                "A string has ambiguous TensorShape, please wrap in a list or convert to an int: %s"
                % (str(dims),)
            )
        try:
            iterator = iter(dims)
        except TypeError:
            return (as_dimension(dims)._value,)
        return tuple(as_dimension(d)._value for d in iterator)

    @property
    def _v2_behavior(self) -> bool:
        return bool(_TENSORSHAPE_V2_OVERRIDE)

    @property
    def _dims(self) -> Optional[list[Dimension]]:
        return self.dims

    @property
    def dims(self) -> Any:
        """A list of Dimensions, or None when the rank is unknown."""
        return None if self._sizes is None else [Dimension(size) for size in self._sizes]

    @property
    def rank(self) -> Any:
        """The number of dimensions, or None."""
        return None if self._sizes is None else len(self._sizes)

    @property
    def ndims(self) -> Any:
        return self.rank

    def __repr__(self) -> str:
        if _TENSORSHAPE_V2_OVERRIDE:
            return "TensorShape(%s)" % (None if self._sizes is None else list(self._sizes))
        return "TensorShape(%r)" % self.dims

    def __str__(self) -> str:
        if self._sizes is None:
            return "<unknown>"
        if _TENSORSHAPE_V2_OVERRIDE:
            return (
                "(%s,)" % self._sizes[0]
                if len(self._sizes) == 1
                else "(%s)" % ", ".join(map(str, self._sizes))
            )
        if len(self._sizes) == 1:
            return "(%s,)" % _size_text(self._sizes[0])
        return "(%s)" % ", ".join(_size_text(size) for size in self._sizes)

    def __len__(self) -> int:
        if self._sizes is None:
            raise ValueError("Cannot take the length of Shape with unknown rank.")
        return len(self._sizes)

    def __bool__(self) -> bool:
        return self._sizes is not None

    __nonzero__ = __bool__

    def __iter__(self) -> Iterator[Any]:
        if self._sizes is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        if _TENSORSHAPE_V2_OVERRIDE:
            return iter(self._sizes)
        return iter([Dimension(size) for size in self._sizes])

    def __getitem__(self, key: Any) -> Any:
        if self._sizes is not None:
            if isinstance(key, slice):
                return TensorShape(self._sizes[key])
            size = self._sizes[key]
            return size if _TENSORSHAPE_V2_OVERRIDE else Dimension(size)
        if not isinstance(key, slice):
            return None if _TENSORSHAPE_V2_OVERRIDE else Dimension(None)
        start = key.start if key.start is not None else 0
        stop = key.stop
        if key.step is not None:
            raise ValueError("Steps are not yet handled")
        if stop is None or (stop < 0 <= start) or (start < 0 <= stop and stop == 0):
            return unknown_shape()
        if start < 0 <= stop:
            return unknown_shape()
        return unknown_shape(rank=max(0, stop - start))

    def num_elements(self) -> Optional[int]:
        """The number of elements of a tensor of this shape, or None."""
        if self._sizes is None or None in self._sizes:
            return None
        count = 1
        for size in self._sizes:
            count *= size  # type: ignore[operator]
        return count

    def merge_with(self, other: Any) -> TensorShape:
        """Merges both shapes; ValueError when they are not compatible."""
        other = as_shape(other)
        if self._sizes is None:
            return other
        if other._sizes is None:
            return self
        try:
            self.assert_same_rank(other)
            return TensorShape([a.merge_with(b) for a, b in zip(self.dims, other.dims)])
        except ValueError:
            raise ValueError("Shapes %s and %s are not compatible" % (self, other)) from None

    def __add__(self, other: Any) -> Any:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> Any:
        return as_shape(other).concatenate(self)

    def concatenate(self, other: Any) -> TensorShape:
        """The dimensions of this shape followed by those of `other`; unknown if one shape is."""
        other = as_shape(other)
        if self._sizes is None or other._sizes is None:
            return unknown_shape()
        return TensorShape(self._sizes + other._sizes)

    def assert_same_rank(self, other: Any) -> None:
        other = as_shape(other)
        if self.ndims is not None and other.ndims is not None and self.ndims != other.ndims:
            raise ValueError("Shapes %s and %s must have the same rank" % (self, other))

    def assert_has_rank(self, rank: Any) -> None:
        if self.ndims not in (None, rank):
            raise ValueError("Shape %s must have rank %d" % (self, rank))

    def with_rank(self, rank: Any) -> TensorShape:
        """This shape, known to have a rank; ValueError when it has another one."""
        try:
            return self.merge_with(unknown_shape(rank=rank))
        except ValueError:
            raise ValueError("Shape %s must have rank %d" % (self, rank)) from None

    def with_rank_at_least(self, rank: Any) -> TensorShape:
        if self.ndims is not None and self.ndims < rank:
            raise ValueError("Shape %s must have rank at least %d" % (self, rank))
        return self

    def with_rank_at_most(self, rank: Any) -> TensorShape:
        if self.ndims is not None and self.ndims > rank:
            raise ValueError("Shape %s must have rank at most %d" % (self, rank))
        return self

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor may have both shapes."""
        other = as_shape(other)
        if self._sizes is None or other._sizes is None:
            return True
        if len(self._sizes) != len(other._sizes):
            return False
        return all(a is None or b is None or a == b for a, b in zip(self._sizes, other._sizes))

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError("Shapes %s and %s are incompatible" % (self, other))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """The most specific shape compatible with both."""
        other = as_shape(other)
        if self._sizes is None or other._sizes is None or len(self._sizes) != len(other._sizes):
            return unknown_shape()
        return TensorShape(
            tuple(a if a is not None and a == b else None for a, b in zip(self._sizes, other._sizes))
        )

    def is_fully_defined(self) -> bool:
        return self._sizes is not None and None not in self._sizes

    def assert_is_fully_defined(self) -> None:
        if not self.is_fully_defined():
            raise ValueError("Shape %s is not fully defined" % self)

    def as_list(self) -> list[Optional[int]]:
        """The sizes, None for unknown ones; ValueError when the rank is unknown."""
        if self._sizes is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._sizes)

    def as_proto(self) -> Any:
        """This shape as a TensorShapeProto."""
        from millrace.core.framework import tensor_shape_pb2

        if self._sizes is None:
            return tensor_shape_pb2.TensorShapeProto(unknown_rank=True)
        dim = tensor_shape_pb2.TensorShapeProto.Dim
        return tensor_shape_pb2.TensorShapeProto(dim=[dim(size=-1 if s is None else s) for s in self._sizes])

    def __eq__(self, other: Any) -> Any:
        try:
            other = as_shape(other)
        except TypeError:
            return NotImplemented
        if self._sizes is None or other._sizes is None:
            return self._sizes is other._sizes
        # Compares as a list of Dimensions: an unknown size is neither equal nor unequal to another one.
        if len(self._sizes) != len(other._sizes):
            return False
        return all(a == b for a, b in zip(self._sizes, other._sizes))

    def __ne__(self, other: Any) -> Any:
        try:
            other = as_shape(other)
        except TypeError:
            return NotImplemented
        if self._sizes is None or other._sizes is None:
            raise ValueError("The inequality of unknown TensorShapes is undefined.")
        return self._sizes != other._sizes

    def __hash__(self) -> int:
        return hash(self._sizes)

    def __reduce__(self) -> Any:
        return TensorShape, (None if self._sizes is None else list(self._sizes),)


class TensorShapeV1(TensorShape):
    """TensorShape under another name."""

    __slots__ = ()


class TensorShapeV2(TensorShape):
    """TensorShape under another name."""

    __slots__ = ()


def as_shape(shape: Any) -> TensorShape:
    """`shape` as a TensorShape."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(rank: Optional[int] = None, **kwargs: Any) -> TensorShape:
    """A shape of unknown sizes and, possibly, known rank."""
    if rank is None and "ndims" in kwargs:
        rank = kwargs.pop("ndims")
    if kwargs:
        raise TypeError("Unknown argument: %s" % kwargs)
    return TensorShape(None) if rank is None else TensorShape((None,) * rank)


def scalar() -> TensorShape:
    """The shape of a scalar."""
    return TensorShape(())


def vector(length: Any) -> TensorShape:
    return TensorShape([length])


def matrix(rows: Any, cols: Any) -> TensorShape:
    return TensorShape([rows, cols])


def sizes_or_none(shape: Any) -> Optional[Sequence[Optional[int]]]:
    """The engine's form of a shape: None, or a list of numbers and None."""
    return as_shape(shape)._sizes


_UNKNOWN = TensorShape(None)
_engine.register("tensor_shape", TensorShape)
