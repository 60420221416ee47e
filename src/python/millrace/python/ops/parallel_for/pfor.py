# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Vectorized loops: each operation of an iteration becomes one operation for all iterations.

A tensor of the iteration is the same in all of them, or stacked: it then has a further first dimension.
"""
from __future__ import annotations

import enum
from typing import Any, Callable, Iterable

from millrace.python import _engine
from millrace.python.framework import constant_op, ops, tensor_util
from millrace.python.ops import array_ops, math_ops
from millrace.python.platform import flags

Converter = Callable[["Operands"], Any]


flags.DEFINE_bool(
    "op_conversion_fallback_to_while_loop", False,
    "If true, falls back to using a while loop for ops for which a converter is not defined.",
)  # fmt: skip

# TensorFlow has converters for these; here the loop is not vectorized.
LOOPED = frozenset(
    "AdjustContrastv2 AdjustHue AdjustSaturation Assert AvgPool3D Betainc Bitcast BroadcastGradientArgs Conv2DBackpropFilter"
    " DecodeCSV FFT3D FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2"
    " FusedBatchNormV3 GatherNd IFFT3D IRFFT If LogicalXor MatrixBandPart MaxPool3D MaxPoolGradV2"
    " MaxPoolV2 Multinomial OneHot PartitionedCall ParseSingleExample Print PrintV2 RFFT RandomGamma RandomPoissonV2"
    " SelfAdjointEigV2 ShapeN StatefulPartitionedCall StatelessIf StatelessMultinomial StatelessRandomNormal StatelessRandomUniform StatelessTruncatedNormal StatelessWhile"
    " Svd TensorArrayGatherV3 TensorArrayGradV3 TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArrayV3"
    " TensorArrayWriteV3 While".split()
)


class Unconvertible(ValueError):
    """An operation cannot be converted: too little is known of its shapes, or it is in a branch or loop."""


class NoConverter(Unconvertible):
    """An operation has no converter, in TensorFlow either."""


class Stacked:
    """A tensor, and whether it is stacked."""

    __slots__ = ("t", "is_stacked")

    def __init__(self, t: Any, is_stacked: bool) -> None:
        self.t = t
        self.is_stacked = is_stacked


class Kind(enum.IntEnum):
    """How an op is element-wise, by its record: see Millrace_ElementwiseKind in millrace/c/client.h."""

    ONE = 1
    BROADCASTS = 2
    SAME_SHAPE = 3


CONVERTERS: dict[str, Converter] = {}
# Of element-wise ops that are not in CONVERTERS.
CONVERTERS_OF_KINDS: dict[int, Converter] = {}
# Stateful ops whose value is the same in all iterations.
_READERS = frozenset(
    "ReadVariableOp VarHandleOp VariableV2 Variable Placeholder PlaceholderWithDefault".split()
)


def register(*op_types: str) -> Callable[[Converter], Converter]:
    """A decorator of the converter of some operations."""

    def wrap(converter: Converter) -> Converter:
        for op_type in op_types:
            CONVERTERS[op_type] = converter
        return converter

    return wrap


def register_kind(kind: Kind) -> Callable[[Converter], Converter]:
    """A decorator of the converter of the element-wise ops of a kind."""

    def wrap(converter: Converter) -> Converter:
        CONVERTERS_OF_KINDS[kind] = converter
        return converter

    return wrap


def converter_of(op_type: str) -> Converter | None:
    """The converter of an operation; None if there is none."""
    return CONVERTERS.get(op_type) or CONVERTERS_OF_KINDS.get(_engine.elementwise_kind(op_type))


def is_safe(op: Any) -> bool:
    """Whether an operation may run again without an effect: it is stateless or only reads."""
    return not op.op_def.is_stateful or op.type in _READERS or op.type in CONVERTERS


class Operands:
    """An operation of the iteration and its inputs as they were converted, for a converter."""

    def __init__(self, op: Any, inputs: list[Stacked], count: Any) -> None:
        self.op = op
        self.inputs = inputs
        self.count = count  # the number of iterations, an int32 scalar

    def __len__(self) -> int:
        return len(self.inputs)

    def is_stacked(self, i: int) -> bool:
        """Whether input `i` differs between the iterations."""
        return self.inputs[i].is_stacked

    def tensor(self, i: int) -> Any:
        """Input `i`, stacked or not."""
        return self.inputs[i].t

    def same(self, i: int) -> Any:
        """Input `i`; raises Unconvertible unless it is the same in all iterations."""
        if self.inputs[i].is_stacked:
            raise Unconvertible("input %d of %s must not depend on the iteration" % (i, self.op.type))
        return self.inputs[i].t

    def stacked(self, i: int) -> Any:
        """Input `i` with a row for each iteration."""
        if self.inputs[i].is_stacked:
            return self.inputs[i].t
        t = array_ops.expand_dims(self.inputs[i].t, 0)
        return array_ops.tile(t, array_ops.concat([[self.count], self.ones(self.rank(i))], 0))

    def all_stacked(self) -> list[Any]:
        """All inputs with a row for each iteration."""
        return [self.stacked(i) for i in range(len(self.inputs))]

    def rank(self, i: int) -> int:
        """The rank that input `i` has in an iteration."""
        rank = self.op.inputs[i].shape.ndims
        if rank is None:
            raise Unconvertible("the rank of input %d of %s is not known" % (i, self.op.type))
        return int(rank)

    def aligned(self, i: int, rank: int) -> Any:
        """Input `i`, reshaped to broadcast against others whose rank in an iteration is `rank`."""
        missing = rank - self.rank(i)
        if not self.inputs[i].is_stacked or missing <= 0:
            return self.inputs[i].t
        t = self.inputs[i].t
        shape = array_ops.shape(t)
        return array_ops.reshape(t, array_ops.concat([shape[:1], self.ones(missing), shape[1:]], 0))

    def ones(self, n: int) -> Any:
        """`n` ones."""
        return constant_op.constant([1] * n, dtype="int32")

    def value(self, i: int) -> Any:
        """Input `i`, a constant, as an array."""
        value = tensor_util.constant_value(self.same(i))
        if value is None:
            raise Unconvertible("input %d of %s is not constant" % (i, self.op.type))
        return value

    def prefixed(self, i: int, first: Any) -> Any:
        """The vector that is input `i`, with `first` in front."""
        vector = self.same(i)
        return array_ops.concat([array_ops.reshape(math_ops.cast(first, vector.dtype), [1]), vector], 0)

    def axis(self, i: int) -> Any:
        """The axes that input `i` names, as axes of stacked tensors."""
        axis = self.same(i)
        return axis + math_ops.cast(axis >= 0, axis.dtype)

    def again(self, inputs: Iterable[Any], **attrs: Any) -> Any:
        """The results of the same operation with other inputs and some other attributes."""
        from millrace.core.framework import attr_value_pb2

        values = {name: value for name, value in self.op.node_def.attr.items() if name[0] != "_"}
        for name, value in attrs.items():
            if isinstance(value, list):
                made = attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(i=value))
            else:
                made = attr_value_pb2.AttrValue(i=value)
            values[name] = made
        inputs = [ops.convert_to_tensor(x) for x in inputs]
        dtypes = [x.dtype for x in self.op.outputs]
        return ops.get_default_graph().create_op(self.op.type, inputs, dtypes, attrs=values).outputs

    def folded(self, i: int) -> Any:
        """Input `i` with the iterations as part of its first dimension."""
        t = self.stacked(i)
        shape = array_ops.shape(t)
        return array_ops.reshape(t, array_ops.concat([[-1], shape[2:]], 0))

    def unfolded(self, t: Any) -> Any:
        """A result of folded inputs, with the iterations as a dimension of their own."""
        shape = array_ops.shape(t)
        return array_ops.reshape(t, array_ops.concat([[self.count], shape[:1] // self.count, shape[1:]], 0))


class PFor:
    """Converts tensors that were made from the number of an iteration."""

    def __init__(self, loop_var: Any, loop_len: Any, pfor_ops: list[Any]) -> None:
        """`pfor_ops`: the operations of an iteration, in the order in which they were made."""
        self._loop_len = ops.convert_to_tensor(loop_len, dtype="int32")
        self._ops = {id(op): op for op in pfor_ops}
        self._order = pfor_ops
        self._converted: dict[int, Stacked] = {id(loop_var): Stacked(math_ops.range(0, self._loop_len), True)}

    def convert(self, tensors: list[Any]) -> list[Any]:
        """The tensors of all iterations, stacked.

        Raises:
          Unconvertible: some operation cannot be converted.
        """
        needed = self._needed(tensors)
        for op in self._order:
            if id(op) in needed:
                self._convert_op(op)
        found = []
        for t in tensors:
            wrapped = self._of(t)
            if not wrapped.is_stacked:
                operands = Operands(array_ops.identity(t).op, [wrapped], self._loop_len)
                wrapped = Stacked(operands.stacked(0), True)
            found.append(wrapped.t)
        return found

    def _needed(self, tensors: list[Any]) -> set[int]:
        work, needed = [t.op for t in tensors], set()
        while work:
            op = work.pop()
            if id(op) in needed or id(op) not in self._ops:
                continue
            needed.add(id(op))
            work += [x.op for x in op.inputs]
        return needed

    def _of(self, t: Any) -> Stacked:
        return self._converted.get(id(t)) or Stacked(t, False)

    def _convert_op(self, op: Any) -> None:
        if op.outputs and id(op.outputs[0]) in self._converted:
            return
        if op._get_control_flow_context() is not None:
            raise Unconvertible("%s is part of a branch or a loop" % op.name)
        inputs = [self._of(x) for x in op.inputs]
        differs = any(x.is_stacked for x in inputs)
        if not differs and (not op.op_def.is_stateful or op.type in _READERS):
            return
        if op.control_inputs and any(id(c) in self._ops for c in op.control_inputs):
            raise Unconvertible("%s has control inputs of the iteration" % op.name)
        converter = converter_of(op.type)
        if converter is None:
            kind = Unconvertible if op.type in LOOPED else NoConverter
            raise kind(
                "No converter defined for %s\n%s\ninputs: %s. \nEither add a converter or set "
                "--op_conversion_fallback_to_while_loop=True, which may run slower"
                % (op.type, op.node_def, [x.t for x in inputs])
            )
        outputs = converter(Operands(op, inputs, self._loop_len))
        if isinstance(outputs, Stacked):
            outputs = [outputs]
        elif not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        for old, new in zip(op.outputs, outputs):
            if not isinstance(new, Stacked):
                new = Stacked(new, True)
            if new.is_stacked:
                new.t.set_shape([None] if old.shape.ndims == 0 else None)
                if old.shape.ndims is not None:
                    new.t.set_shape([None] + old.shape.as_list())
            self._converted[id(old)] = new
