# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.saved_model.load_v2: a SavedModel as an object with variables, functions and signatures."""
from __future__ import annotations

import os
from typing import Any

from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.ops import array_ops, io_ops, variables
from millrace.python.saved_model import constants, function_deserialization, loader_impl
from millrace.python.saved_model import signature_serialization, utils_impl
from millrace.python.training import checkpoint_management, py_checkpoint_reader
from millrace.python.training.tracking import base, data_structures, tracking
from millrace.python.util import compat


class RestoredResource(tracking.TrackableResource):
    """A table or similar resource, made by a function of the model."""

    _create: Any = None
    _fill: Any = None

    def _create_resource(self) -> Any:
        return self._create()

    def _initialize(self) -> Any:
        return self._fill() if self._fill is not None else None


class _Checkpoint:
    """The values of a model's variables by their nodes."""

    def __init__(self, prefix: str, nodes: Any) -> None:
        from millrace.core.protobuf import trackable_object_graph_pb2

        self._prefix = prefix
        self._keys: dict[int, str] = {}
        self._reader: Any = None
        if not checkpoint_management.checkpoint_exists(prefix):
            return
        self._reader = py_checkpoint_reader.NewCheckpointReader(prefix)
        if not self._reader.has_tensor(base.OBJECT_GRAPH_PROTO_KEY):
            return
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(self._reader.get_tensor(base.OBJECT_GRAPH_PROTO_KEY))
        self._match(nodes, graph.nodes)

    def _match(self, nodes: Any, stored: Any) -> None:
        """Walks both graphs along the same names."""
        seen = {0}
        waiting = [(0, 0)] if len(nodes) and len(stored) else []
        while waiting:
            number, other = waiting.pop()
            if stored[other].attributes:
                self._keys[number] = stored[other].attributes[0].checkpoint_key
            names = {child.local_name: child.node_id for child in stored[other].children}
            found = [
                (c.node_id, names[c.local_name]) for c in nodes[number].children if c.local_name in names
            ]
            slots = {s.slot_name: s.slot_variable_node_id for s in stored[other].slot_variables}
            by_place = list(zip(nodes[number].slot_variables, stored[other].slot_variables))
            if len(slots) and len(nodes[number].slot_variables) == len(stored[other].slot_variables):
                found += [(a.slot_variable_node_id, b.slot_variable_node_id) for a, b in by_place]
            for child, place in found:
                if child not in seen:
                    seen.add(child)
                    waiting.append((child, place))

    def value(self, number: int, dtype: Any, shape: Any) -> Any:
        """The value of a variable, or an operation that reads it; zeros where the checkpoint lacks it."""
        key = self._keys.get(number)
        if key is None:
            return array_ops.zeros(
                [s or 0 for s in shape.as_list()] if shape.ndims is not None else [], dtype
            )
        if ops.executing_eagerly():
            return ops.convert_to_tensor(self._reader.get_tensor(key), dtype)
        tensor = io_ops.restore_v2(self._prefix, [key], [""], [dtype])[0]
        tensor.set_shape(shape)
        return tensor


class Loader:
    """Makes the objects of a SavedObjectGraph."""

    def __init__(self, meta_graph: Any, export_dir: str) -> None:
        self._meta_graph = meta_graph
        self._graph_def = meta_graph.graph_def
        self._saved = meta_graph.object_graph_def
        self._export_dir = export_dir
        self._library = function_deserialization.Library(self._graph_def.library)
        self._checkpoint = _Checkpoint(utils_impl.get_variables_path(export_dir), self._saved.nodes)
        self._objects: dict[int, Any] = {}
        self._concrete: dict[str, Any] = {}
        self._constants = {n.name: n for n in self._graph_def.node if n.op == "Const"}

    def load(self) -> Any:
        """The root object."""
        for number in range(len(self._saved.nodes)):
            self._object(number)
        for number, saved in enumerate(self._saved.nodes):
            for child in saved.children:
                self._set_child(number, child.local_name, self._object(child.node_id))
        for number, saved in enumerate(self._saved.nodes):
            if saved.WhichOneof("kind") == "resource":
                initializer = self._object(number)._initialize()
                if initializer is not None and not ops.executing_eagerly():
                    ops.add_to_collection(
                        ops.GraphKeys.TABLE_INITIALIZERS, getattr(initializer, "op", initializer)
                    )
        return self._object(0)

    def _object(self, number: int) -> Any:
        if number not in self._objects:
            if number < 0:
                raise IndexError(number)
            saved = self._saved.nodes[number]
            kind = saved.WhichOneof("kind") or "user_object"
            self._objects[number] = getattr(self, "_make_" + kind)(number, getattr(saved, kind))
        return self._objects[number]

    def _set_child(self, number: int, name: str, child: Any) -> None:
        saved, obj = self._saved.nodes[number], self._objects[number]
        if isinstance(obj, signature_serialization.SignatureMap):
            obj._signatures[name] = child
        elif isinstance(obj, data_structures.Mapping):
            obj[name] = child
        elif isinstance(obj, data_structures.List):
            while len(obj) <= int(name):
                obj.append(None)
            obj[int(name)] = child
        elif saved.WhichOneof("kind") in (None, "user_object"):
            setattr(obj, name, child)
            if name == "__call__":
                type(obj).__call__ = _call_attribute

    def _make_user_object(self, number: int, proto: Any) -> Any:
        if proto.identifier == "signature_map":
            return signature_serialization.SignatureMap()
        if proto.identifier == "trackable_dict_wrapper":
            return data_structures._DictWrapper()
        if proto.identifier in ("trackable_list_wrapper", "trackable_tuple_wrapper"):
            return data_structures.ListWrapper()

        class _UserObject(tracking.AutoTrackable):
            """An object of a model; each has its own class, so that it may be made callable."""

        return _UserObject()

    def _make_variable(self, number: int, proto: Any) -> Any:
        dtype, shape = dtypes.DType(proto.dtype), tensor_shape.TensorShape(proto.shape)
        value = self._checkpoint.value(number, dtype, shape)
        return variables.VariableV1(
            value, trainable=proto.trainable, name=proto.name or None, dtype=dtype, use_resource=True
        )

    def _make_asset(self, number: int, proto: Any) -> Any:
        name = self._meta_graph.asset_file_def[proto.asset_file_def_index].filename
        folder = os.path.join(self._export_dir, constants.ASSETS_DIRECTORY)
        return tracking.TrackableAsset(os.path.join(folder, name))

    def _make_constant(self, number: int, proto: Any) -> Any:
        node = self._constants[proto.operation]
        return ops.convert_to_tensor(tensor_util.MakeNdarray(node.attr["value"].tensor))

    def _make_resource(self, number: int, proto: Any) -> Any:
        made = RestoredResource(proto.device)
        self._objects[number] = made
        children = {c.local_name: c.node_id for c in self._saved.nodes[number].children}
        made._create = self._object(children["_create_resource"])
        if "_initialize" in children:
            made._fill = self._object(children["_initialize"])
        return made

    def _make_function(self, number: int, proto: Any) -> Any:
        bodies = [self._body(name) for name in proto.concrete_functions]
        return function_deserialization.RestoredFunction("restored_function", proto.function_spec, bodies)

    def _make_bare_concrete_function(self, number: int, proto: Any) -> Any:
        concrete = self._body(proto.concrete_function_name)
        concrete._arg_keywords = list(proto.argument_keywords)
        concrete._num_positional_args = proto.allowed_positional_arguments
        return concrete

    def _body(self, name: str) -> Any:
        if name not in self._concrete:
            saved = self._saved.concrete_functions[name]
            captured = [self._object(i) for i in saved.bound_inputs]
            self._concrete[name] = function_deserialization.recreate_concrete_function(
                saved, self._library.find(name), self._library, [_tensor_of(obj) for obj in captured],
                [obj for obj in captured if isinstance(obj, variables.Variable)],
            )  # fmt: skip
        return self._concrete[name]


def _tensor_of(obj: Any) -> Any:
    """The tensor that functions get for a captured object."""
    if isinstance(obj, variables.Variable):
        return obj.handle  # type: ignore[attr-defined]
    if isinstance(obj, tracking.TrackableAsset):
        return obj.asset_path
    if isinstance(obj, tracking.TrackableResource):
        return obj.resource_handle
    if not isinstance(obj, ops.Tensor):
        raise ValueError("A function captures %s, which is not a tensor." % (obj,))
    return obj


def _call_attribute(instance: Any, *args: Any, **kwargs: Any) -> Any:
    return instance.__dict__["__call__"](*args, **kwargs)


def load(export_dir: Any, tags: Any = None) -> Any:
    """Loads a SavedModel as an object.

    Args:
      export_dir: folder of the model.
      tags: the tags of the graph to load; None for models with one graph.

    Returns:
      An object with the attributes of the one that was saved (variables, functions, further objects,
      containers), and `signatures`, a map from names to functions that take tensors by names and return
      dicts. A model written by SavedModelBuilder has `signatures`, `variables`, `graph` and `prune(feeds,
      fetches)`. In graph mode, initializers read the values of variables.

    Raises:
      OSError: there is no model.
      ValueError: the model has no graph with the tags, or is corrupt.
    """
    export_dir = compat.as_str(os.fspath(export_dir))
    model = loader_impl.parse_saved_model(export_dir)
    if len(model.meta_graphs) != 1 or not model.meta_graphs[0].HasField("object_graph_def"):
        from millrace.python.saved_model import load_v1_in_v2

        return load_v1_in_v2.load(export_dir, tags)
    meta_graph = model.meta_graphs[0]
    wanted = None if tags is None else {tags} if isinstance(tags, str) else set(tags)
    if wanted is not None and wanted != set(meta_graph.meta_info_def.tags):
        raise ValueError(
            "The SavedModel at {} has one MetaGraph with tags {}, but got an incompatible argument tags={} to "
            "tf.saved_model.load. You may omit it, pass 'None', or pass matching tags.".format(
                export_dir, list(meta_graph.meta_info_def.tags), tags
            )
        )
    try:
        with ops.init_scope():
            root = Loader(meta_graph, export_dir).load()
    except (KeyError, IndexError, RecursionError) as error:
        raise ValueError(
            "The objects of the SavedModel at {} are damaged: {!r}".format(export_dir, error)
        ) from error
    root.tensorflow_version = meta_graph.meta_info_def.tensorflow_version
    root.tensorflow_git_version = meta_graph.meta_info_def.tensorflow_git_version
    return root
