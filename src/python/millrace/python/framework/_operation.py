# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Operation: a node of a graph."""
from __future__ import annotations

import linecache
from typing import Any, Iterator, Sequence

from millrace.python import _engine
from millrace.python.framework import dtypes, tensor_shape


class _InputList(Sequence[Any]):
    """The inputs of an operation. Immutable."""

    __slots__ = ["_inputs"]

    def __init__(self, inputs: Any) -> None:
        self._inputs = inputs

    def __iter__(self) -> Iterator[Any]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, i: Any) -> Any:
        return self._inputs[i]

    def __repr__(self) -> str:
        return repr(list(self._inputs))

    def __add__(self, other: Any) -> list[Any]:
        return list(self._inputs) + list(other)

    def __radd__(self, other: Any) -> list[Any]:
        return list(other) + list(self._inputs)

    def __eq__(self, other: Any) -> Any:
        return (
            list(self._inputs) == list(other)
            if isinstance(other, (list, tuple, _InputList))
            else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]


class Operation(_engine.OperationBase):
    """A node of a graph: has tensors as inputs, and computes its outputs when a session runs it.

    Operations are made by the functions of the package, or by `Graph.create_op`.
    """

    __slots__ = ()

    def __new__(
        cls, node_def: Any, g: Any, inputs: Any = None, output_types: Any = None, control_inputs: Any = None,
        input_types: Any = None, original_op: Any = None, op_def: Any = None,
    ) -> Any:  # fmt: skip
        from millrace.python.framework import ops

        return ops._operation_of_node_def(
            node_def, g, inputs, output_types, control_inputs, input_types, original_op
        )

    def __init__(
        self, node_def: Any, g: Any, inputs: Any = None, output_types: Any = None, control_inputs: Any = None,
        input_types: Any = None, original_op: Any = None, op_def: Any = None,
    ) -> None:  # fmt: skip
        """Makes an operation of a NodeDef in the graph `g`."""

    @property
    def inputs(self) -> Any:
        """The tensors that the operation takes."""
        return _InputList(self._input_tensors)

    @property
    def _inputs(self) -> list[Any]:
        return list(self._input_tensors)

    @property
    def _input_types(self) -> list[Any]:
        return [t.dtype.base_dtype for t in self._input_tensors]

    @property
    def _output_types(self) -> list[int]:
        return [t.dtype.as_datatype_enum for t in self.outputs]

    @property
    def _control_inputs(self) -> list[Any]:
        return self.control_inputs

    def values(self) -> Any:
        """The outputs, as a tuple."""
        return tuple(self.outputs)

    @property
    def node_def(self) -> Any:
        """The operation as a NodeDef."""
        from millrace.core.framework import node_def_pb2

        return node_def_pb2.NodeDef.FromString(self._node_def_bytes())

    @property
    def op_def(self) -> Any:
        """The OpDef of the operation's type."""
        return self.graph._get_op_def(self.type)

    @property
    def traceback(self) -> list[Any]:
        """The stack of its creation: (file name, line, function, text of the line), outermost call first."""
        return [(f, n, name, linecache.getline(f, n).strip() or None) for f, n, name in self._stack]

    @property
    def traceback_with_start_lines(self) -> list[Any]:
        return [frame + (None,) for frame in self.traceback]

    @property
    def _traceback(self) -> list[Any]:
        given: Any = getattr(self.graph, "_given_tracebacks", {}).get(self.name, self)
        if given is None:
            raise AttributeError("The operation has no traceback.")
        return self.traceback if given is self else list(given)

    @_traceback.setter
    def _traceback(self, frames: Any) -> None:
        self._give_traceback(frames)

    @_traceback.deleter
    def _traceback(self) -> None:
        self._give_traceback(None)

    def _give_traceback(self, frames: Any) -> None:
        self.graph._given_tracebacks = {**getattr(self.graph, "_given_tracebacks", {}), self.name: frames}

    @property
    def _op_def(self) -> Any:
        return self.op_def

    @property
    def _is_stateful(self) -> bool:
        return bool(self.op_def.is_stateful)

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, ctx: Any) -> None:
        self._control_flow_context = ctx

    def colocation_groups(self) -> list[bytes]:
        """The names of the groups that the operation is placed with, b"loc:@name"."""
        default = [("loc:@%s" % self.name).encode()]
        try:
            groups = self._get_attr("_class")
        except ValueError:
            return default
        if isinstance(groups, bytes):
            groups = [groups]
        found = [group for group in groups if isinstance(group, bytes) and group.startswith(b"loc:@")]
        return found if found else default

    def get_attr(self, name: str) -> Any:
        """The value of an attribute: types as DTypes, strings as bytes, shapes and tensors as messages.

        Raises:
          ValueError: if there is no such attribute.
        """
        from millrace.python.framework import _attributes

        return _attributes.python_value(self._get_attr(name))

    def _warn_if_run(self, change: str) -> None:
        """Logs a warning for each open session that already holds the unchanged operation."""
        for session in list(self.graph._sessions):
            if not session._closed and self._id + 1 < session._num_ids():
                from millrace.python.platform import tf_logging

                tf_logging.warning(
                    "Operation '%s' was changed by %s after it was run by a session. This mutation will have no "
                    "effect, and will trigger an error in the future. Either don't modify nodes after running "
                    "them or create a new session.", self.name, change,
                )  # fmt: skip

    def _set_attr(self, attr_name: str, attr_value: Any) -> None:
        self._set_attr_proto(attr_name, attr_value.SerializeToString())
        self._warn_if_run("setting attribute")

    def _set_attr_value(self, attr_name: str, value: Any) -> None:
        from millrace.python.framework import _attributes

        self._set_attr_proto(attr_name, _attributes.proto_bytes_of_any(value))
        self._warn_if_run("setting attribute")

    def _set_func_attr(self, attr_name: str, func_name: str) -> None:
        from millrace.core.framework import attr_value_pb2

        self._set_attr(attr_name, attr_value_pb2.AttrValue(func=attr_value_pb2.NameAttrList(name=func_name)))

    def _clear_attr(self, attr_name: str) -> None:
        self._clear_attr_value(attr_name)
        self._warn_if_run("clearing attribute")

    def _set_device(self, device: Any) -> None:
        from millrace.python.framework import device as pydev

        self._set_requested_device(pydev.canonical_or_string(device))
        self._warn_if_run("setting device")

    def _set_device_from_string(self, device: str) -> None:
        self._set_requested_device(device)
        self._warn_if_run("setting device")

    def _update_input(self, index: int, tensor: Any) -> None:
        from millrace.python.framework import ops

        if not isinstance(tensor, ops.Tensor):
            raise TypeError("tensor must be a Tensor: %s" % tensor)
        ops._assert_same_graph(self, tensor)
        inputs = self._input_tensors
        if index >= len(inputs):
            from millrace.python.framework import errors_impl

            raise errors_impl.OutOfRangeError(  # type: ignore[call-arg]
                None, None,
                "Cannot update edge. Input index [%d] is greater than the number of total inputs [%d]." % (index, len(inputs)),
            )  # fmt: skip
        if tensor.dtype.base_dtype is inputs[index].dtype.base_dtype and not tensor.shape.is_compatible_with(
            inputs[index].shape
        ):
            from millrace.python.framework import errors_impl

            raise errors_impl.InvalidArgumentError(  # type: ignore[call-arg]
                None, None,
                "Cannot update edge, incompatible shapes: %s and %s." % (_engine_text(tensor.shape), _engine_text(inputs[index].shape)),
            )  # fmt: skip
        self._update_input_tensor(index, tensor)
        self._warn_if_run("updating input tensor")

    def _add_control_inputs(self, control_ops: Any) -> None:
        for op in control_ops:
            self._add_control_input(op)

    def _add_control_input(self, op: Any) -> None:
        self._add_control_op(op)
        self._warn_if_run("adding control edge")

    def _remove_all_control_inputs(self) -> None:
        self._remove_control_ops()
        self._warn_if_run("removing control edges")

    def _add_outputs(self, types: Any, shapes: Any) -> None:
        raise NotImplementedError("The outputs of an operation are fixed when it is made")

    def _tf_output(self, output_idx: int) -> Any:
        return self.outputs[output_idx]

    def _control_flow_post_processing(self) -> None:
        from millrace.python.framework import ops

        ops._after_making(self)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs the operation in `session` or the default session."""
        from millrace.python.framework import ops

        ops._run_using_default_session(self, feed_dict, self.graph, session)

    def __repr__(self) -> str:
        return "<tf.Operation '%s' type=%s>" % (self.name, self.type)

    def __str__(self) -> str:
        return str(self.node_def)

    def __copy__(self) -> Operation:
        return self


def _engine_text(shape: Any) -> str:
    """The text of a shape as in the engine's messages: "[2,?]", "?"."""
    if shape.ndims is None:
        return "?"
    return "[%s]" % ",".join("?" if d is None else str(d) for d in shape.as_list())


def kinds_of_value(value: Any) -> Any:
    """(kind, value) of an attribute whose type is inferred from the value; None for an invalid value."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int):
        return "int", value
    if isinstance(value, float):
        return "float", value
    if isinstance(value, (str, bytes)):
        return "string", value
    if isinstance(value, dtypes.DType):
        return "type", value
    if isinstance(value, tensor_shape.TensorShape):
        return "shape", value._sizes
    return None


_engine.register("operation", Operation)
