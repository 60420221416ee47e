# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graph: a container of operations and tensors."""
from __future__ import annotations

import re
import threading
import weakref
from contextlib import contextmanager
from typing import Any, Iterator, Optional

from millrace.python import _engine
from millrace.python.framework import _graph_scopes, _graph_functions, dtypes, tensor_shape
from millrace.python.framework._operation import Operation
from millrace.python.framework._tensor import Tensor

_VALID_OP_NAME_REGEX = re.compile("^[A-Za-z0-9.][A-Za-z0-9_.\\-/]*$")
_VALID_SCOPE_NAME_REGEX = re.compile("^[A-Za-z0-9_.\\-/]*$")


def name_from_scope_name(name: str) -> str:
    """A name without '/' at its end."""
    return name[:-1] if name and name[-1] == "/" else name


def _as_graph_element(obj: Any) -> Any:
    """The graph element of an object: that of a variable is a tensor."""
    convert = getattr(obj, "_as_graph_element", None)
    return convert() if convert else None


class _Lock:
    """A lock held by any number of runs, or by one change of an operation."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def group(self, group_id: int) -> Iterator[None]:
        with self._lock:
            yield


class Graph(_graph_scopes.GraphScopes, _graph_functions.GraphFunctions, _engine.GraphBase):
    """A computation: operations, the tensors between them, and collections of things that belong to it.

    There is a default graph, to which functions of the package add operations; `with graph.as_default():` makes
    another one the default. A graph is not thread-safe: only one thread may change it at a time.
    """

    _VALID_OP_NAME_REGEX = _VALID_OP_NAME_REGEX

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _engine.GraphBase.__new__(cls)

    def __init__(self) -> None:
        """Creates an empty graph."""
        self._lock = threading.RLock()
        self._group_lock = _Lock()
        self._collections: dict[Any, list[Any]] = {}
        self._unfeedable_tensors: set[Any] = set()
        self._unfetchable_ops: set[Any] = set()
        self._has_session_handles = False
        self._sessions: Any = weakref.WeakSet()  # sessions of the graph
        self._handle_feeders: dict[Any, Any] = {}
        self._handle_readers: dict[Any, Any] = {}
        self._handle_movers: dict[Any, Any] = {}
        self._handle_deleters: dict[Any, Any] = {}
        self._seed: Optional[int] = None
        self._py_funcs_used_in_graph: list[Any] = []
        self._building_function = False
        self._graph_key = "grap-key-%d/" % _next_graph_uid()
        self._last_loss_reduction = None
        self._is_loss_scaled_by_optimizer = False
        self._container = ""
        self._registered_ops: dict[str, Any] = {}
        self._op_defs: dict[str, Any] = {}
        self._add_control_dependencies = False
        self._frames: dict[str, Any] = {}  # loops by names of frames
        self._exits_without_gradient: list[Any] = []  # of loops made with back_prop=False
        self._init_scopes()
        self._init_functions()

    # --- Operations

    @property
    def version(self) -> int:
        """A number that grows with each operation."""
        return self._num_ids

    @property
    def _version(self) -> int:
        return self._num_ids

    @property
    def _last_id(self) -> int:
        return self._num_ids

    @property
    def _nodes_by_id(self) -> dict[int, Operation]:
        return {op._id: op for op in self._operations()}

    @property
    def graph_def_versions(self) -> Any:
        """The VersionDef of the graph."""
        from millrace.core.framework import versions_pb2

        return versions_pb2.VersionDef.FromString(self._version_bytes())

    @property
    def seed(self) -> Any:
        """The seed of the graph, or None."""
        return self._seed

    @seed.setter
    def seed(self, seed: Any) -> None:
        self._seed = seed

    @property
    def finalized(self) -> bool:
        """Whether nothing can be added any more."""
        return self._finalized

    def finalize(self) -> None:
        """Makes the graph final: adding an operation raises RuntimeError."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def _next_id(self) -> int:
        self._check_not_finalized()
        return self._num_ids + 1

    @property
    def building_function(self) -> bool:
        """Whether the graph is the body of a function."""
        return self._building_function

    def _mutation_lock(self) -> Any:
        return self._group_lock.group(0)

    def _session_run_lock(self) -> Any:
        return self._group_lock.group(1)

    def _get_op_def(self, op_type: str) -> Any:
        found = self._op_defs.get(op_type)
        if found is None:
            from millrace.core.framework import op_def_pb2

            found = op_def_pb2.OpDef.FromString(self._op_def_bytes(op_type))
            self._op_defs[op_type] = found
        return found

    def create_op(
        self, op_type: str, inputs: Any, dtypes: Any = None, input_types: Any = None, name: Any = None, attrs: Any = None,
        op_def: Any = None, compute_shapes: Any = True, compute_device: bool = True,
    ) -> Operation:  # fmt: skip
        """Adds an operation. Programs normally call the function of the op.

        Args:
          op_type: the name of the op.
          inputs: tensors, in the order of the op's inputs; lists are spread out.
          dtypes: types of the outputs; not needed.
          input_types: types of the inputs; not needed.
          name: of the operation; a number is added until it is new.
          attrs: AttrValues by name.
          op_def: not needed.
          compute_shapes: shapes are always computed.
          compute_device: whether device functions are called.

        Raises:
          TypeError: if an input is no tensor.
          ValueError: if an input is of another graph, or the engine refuses the operation.
        """
        for idx, a in enumerate(inputs):
            if not isinstance(a, Tensor):
                raise TypeError("Input #%d is not a tensor: %s" % (idx, a))
        return self._create_op_internal(
            op_type, inputs, dtypes, input_types, name, attrs, op_def, compute_device
        )

    def _create_op_internal(
        self, op_type: str, inputs: Any, dtypes: Any = None, input_types: Any = None, name: Any = None, attrs: Any = None,
        op_def: Any = None, compute_device: bool = True,
    ) -> Operation:  # fmt: skip
        from millrace.python.framework import _op_specs

        grouped, attributes = _op_specs.group_inputs(self, op_type, list(inputs), attrs or {})
        return self._make_operation(op_type, name, grouped, attributes, compute_device)

    def _make_operation(
        self,
        op_type: str,
        name: Optional[str],
        inputs: list[Any],
        attrs: list[Any],
        compute_device: bool = True,
    ) -> Operation:
        """Adds an operation: `inputs` are tensors and lists of tensors, `attrs` triples of name, kind and value."""
        self._check_not_finalized()
        if name is None:
            name = op_type
        if name and name[-1] == "/":
            name = name[:-1]
        else:
            name = self.unique_name(name)
        if not _VALID_OP_NAME_REGEX.match(name):
            raise ValueError("'%s' is not a valid node name" % name)
        if not self._slow_reasons and self._control_flow_context is None:
            try:
                op = self._make_op(op_type, name, "", inputs, (), attrs)
            except OverflowError as e:
                raise ValueError("An attribute of '%s' is out of range: %s" % (name, e)) from None
            _after_making(op)
            return op
        input_ops: set[Any] = set()
        for item in inputs:
            if isinstance(item, (list, tuple)):
                input_ops.update(t.op for t in item)
            else:
                input_ops.add(item.op)
        controls = self._control_dependencies_for_inputs(input_ops)
        op = self._make_op(op_type, name, "", inputs, [c for c in controls], attrs)
        self._create_op_helper(op, compute_device)
        _after_making(op)
        return op

    def _create_op_helper(self, op: Operation, compute_device: bool = True) -> None:
        self._apply_attr_scopes(op)
        self._record_op_seen_by_control_dependencies(op)
        if compute_device:
            self._apply_device_functions(op)
        self._apply_colocation(op)
        self._apply_container(op)

    @property
    def _c_address(self) -> int:
        return self._handle

    def _add_new_tf_operations(self, compute_devices: bool = True) -> list[Operation]:
        """Makes objects for operations that the engine added, without control flow contexts and scopes."""
        made: list[Operation] = getattr(self, "_made_c_ops", [])
        self._made_c_ops: list[Operation] = []
        return made + self._adopt_new_operations()

    def _create_op_from_tf_operation(self, c_op: Any, compute_device: bool = True) -> Any:
        """The operation made by ops._create_c_op."""
        self._made_c_ops = [op for op in getattr(self, "_made_c_ops", []) if op is not c_op]
        return c_op

    def _apply_scopes_to(self, new_ops: list[Operation], compute_devices: bool = True) -> list[Operation]:
        """Applies the scopes to imported operations, as to those made by Python."""
        if self._slow_reasons or self._control_flow_context is not None:
            for op in new_ops:
                controls = self._control_dependencies_for_inputs({t.op for t in op.inputs})
                op._add_control_inputs(controls)
        for op in new_ops:
            if self._slow_reasons:
                self._create_op_helper(op, compute_devices)
            _after_making(op)
        return new_ops

    # --- Finding things

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The tensor or operation for `obj`: itself, the one of that name, or its `_as_graph_element()`.

        Raises:
          TypeError: if it is none of these.
          ValueError: if it is of another graph, or a malformed name.
          KeyError: if no operation has that name.
        """
        if self._finalized:
            return self._as_graph_element_locked(obj, allow_tensor, allow_operation)
        with self._lock:
            return self._as_graph_element_locked(obj, allow_tensor, allow_operation)

    def _as_graph_element_locked(self, obj: Any, allow_tensor: bool, allow_operation: bool) -> Any:
        if allow_tensor and allow_operation:
            types_str = "Tensor or Operation"
        elif allow_tensor:
            types_str = "Tensor"
        elif allow_operation:
            types_str = "Operation"
        else:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        element = _as_graph_element(obj)
        if element is not None:
            obj = element
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_of_name(obj, allow_tensor, allow_operation)
        if isinstance(obj, Tensor) and allow_tensor:
            if obj.graph is not self:
                raise ValueError("Tensor %s is not an element of this graph." % obj)
            return obj
        if isinstance(obj, Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError("Operation %s is not an element of this graph." % (obj.name,))
            return obj
        raise TypeError("Can not convert a %s into a %s." % (type(obj).__name__, types_str))

    def _element_of_name(self, name: str, allow_tensor: bool, allow_operation: bool) -> Any:
        if ":" in name and allow_tensor:
            try:
                op_name, out_n = name.split(":")
                index = int(out_n)
            except ValueError:
                raise ValueError(
                    "The name %s looks a like a Tensor name, but is not a valid one. Tensor names must be of the form "
                    '"<op_name>:<output_index>".' % repr(name)
                ) from None
            if op_name not in self._nodes_by_name:
                raise KeyError(
                    "The name %s refers to a Tensor which does not exist. The operation, %s, does not exist in the "
                    "graph." % (repr(name), repr(op_name))
                )
            outputs = self._nodes_by_name[op_name].outputs
            if not 0 <= index < len(outputs):
                raise KeyError(
                    "The name %s refers to a Tensor which does not exist. The operation, %s, exists but only has %s "
                    "outputs." % (repr(name), repr(op_name), len(outputs))
                )
            return outputs[index]
        if ":" in name and not allow_tensor:
            raise ValueError("Name %s appears to refer to a Tensor, not a Operation." % repr(name))
        if allow_operation:
            if name not in self._nodes_by_name:
                raise KeyError("The name %s refers to an Operation not in the graph." % repr(name))
            return self._nodes_by_name[name]
        if name in self._nodes_by_name:
            hint = 'The name %s refers to an Operation, not a %s. Tensor names must be of the form "<op_name>:<output_index>".'
            raise ValueError(hint % (repr(name), "Tensor"))
        raise ValueError(
            "The name %s looks like an (invalid) Operation name, not a Tensor. Tensor names must be of the form "
            '"<op_name>:<output_index>".' % repr(name)
        )

    def get_operations(self) -> list[Operation]:
        """All operations, in the order in which they were made."""
        return self._operations()

    def get_operation_by_name(self, name: Any) -> Operation:
        """The operation with this name; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError("Operation names are strings (or similar), not %s." % type(name).__name__)
        return self.as_graph_element(name, allow_tensor=False, allow_operation=True)

    def _get_operation_by_name_unsafe(self, name: str) -> Operation:
        return self._nodes_by_name[name]

    def _get_operation_by_tf_operation(self, tf_oper: Any) -> Operation:
        return tf_oper

    def get_tensor_by_name(self, name: Any) -> Tensor:
        """The tensor with this name, "operation:index"; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError("Tensor names are strings (or similar), not %s." % type(name).__name__)
        return self.as_graph_element(name, allow_tensor=True, allow_operation=False)

    def _get_tensor_by_tf_output(self, tf_output: Any) -> Tensor:
        return tf_output

    # --- As a message

    def as_graph_def(self, from_version: Any = None, add_shapes: bool = False) -> Any:
        """The graph as a GraphDef.

        Args:
          from_version: leave out the operations that existed at this version.
          add_shapes: give each node the attribute `_output_shapes`.
        """
        return self._as_graph_def(from_version, add_shapes)[0]

    def _as_graph_def(self, from_version: Any = None, add_shapes: bool = False) -> Any:
        from millrace.core.framework import graph_pb2

        with self._lock:
            graph = graph_pb2.GraphDef.FromString(self._to_graph_def())
            if not self._functions:
                graph.ClearField("library")
            if from_version is not None:
                kept = [node for node in graph.node if self._nodes_by_name[node.name]._id > from_version]
                del graph.node[:]
                graph.node.extend(kept)
            if add_shapes:
                for node in graph.node:
                    op = self._nodes_by_name[node.name]
                    if op.outputs:
                        node.attr["_output_shapes"].list.shape.extend(
                            [t.shape.as_proto() for t in op.outputs]
                        )
        return graph, self.version

    # --- Feeding and fetching

    def prevent_feeding(self, tensor: Any) -> None:
        """Sessions refuse feeds of this tensor."""
        self._unfeedable_tensors.add(tensor)

    def is_feedable(self, tensor: Any) -> bool:
        return tensor not in self._unfeedable_tensors

    def prevent_fetching(self, op: Any) -> None:
        """Sessions refuse to fetch this operation."""
        self._unfetchable_ops.add(op)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        if isinstance(tensor_or_op, Tensor):
            return tensor_or_op.op not in self._unfetchable_ops
        return tensor_or_op not in self._unfetchable_ops

    # --- Shapes of the values of handles

    def _get_handle_data(self, tensor: Any) -> Any:
        """[(shape, dtype)] of the resource behind a handle; None if unknown."""
        data = tensor._handle_data_tuple()
        return None if data is None else [_handle_entry(data)]

    def _set_handle_data(self, tensor: Any, data: Any) -> None:
        if not data:
            return
        shape, dtype = data[0]
        sizes = tensor_shape.as_shape(shape)._sizes
        tensor._set_handle_data_tuple(dtypes.as_dtype(dtype).as_datatype_enum, sizes)

    def _repr_html_(self) -> str:
        from millrace.python.framework import _graph_page

        return _graph_page.notebook_text(self)

    def __repr__(self) -> str:
        return "<%s.%s object at %#x>" % (type(self).__module__, type(self).__qualname__, id(self))


def _handle_entry(data: Any) -> Any:
    number, sizes = data
    if sizes is not None:
        sizes = tuple(None if size < 0 else size for size in sizes)
    return tensor_shape.TensorShape(sizes), dtypes.as_dtype(number)


_uid = 0
_uid_lock = threading.Lock()


def _next_graph_uid() -> int:
    global _uid
    with _uid_lock:
        _uid += 1
        return _uid


def _after_making(op: Any) -> None:
    """Lets the control-flow context process a new operation."""
    context = op._control_flow_context
    if context is None:
        for t in op._input_tensors:
            if t.op._control_flow_context is not None:
                _check_inputs(op)
                return
        return
    _check_inputs(op)
    context.AddOp(op)


def _check_inputs(op: Any) -> None:
    from millrace.python.ops import control_flow_util

    for t in op._input_tensors:
        control_flow_util.CheckInputFromValidContext(op, t.op)
