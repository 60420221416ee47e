# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.saved_model.save: an object with its variables, functions and files as a SavedModel."""
from __future__ import annotations

import os
from typing import Any

from millrace.python.eager import function as defun
from millrace.python.framework import dtypes, meta_graph, ops, versions
from millrace.python.lib.io import file_io
from millrace.python.ops import array_ops, control_flow_ops, functional_ops, gen_io_ops, variables
from millrace.python.ops import gen_resource_variable_ops as gen_resource
from millrace.python.saved_model import constants, function_serialization, signature_constants
from millrace.python.saved_model import signature_def_utils_impl, signature_serialization, tag_constants
from millrace.python.saved_model import utils_impl
from millrace.python.training import _eager_saving
from millrace.python.training.tracking import base, data_structures, graph_view, tracking
from millrace.python.util import compat


class _Node:
    """A node of the object graph."""

    def __init__(self, obj: Any, kind: str) -> None:
        self.obj = obj
        self.kind = kind
        self.children: list[tuple[str, int]] = []


class _ObjectGraph:
    """The exported objects, their functions and captured objects, which are numbered."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.view = graph_view.ObjectGraphView(root)
        objects, _, self.slot_variables = self.view.objects_ids_and_slot_variables()
        self.nodes = [_Node(obj, _kind_of(obj)) for obj in objects]
        self._ids = {id(obj): i for i, obj in enumerate(objects)}
        self.functions: dict[int, list[Any]] = {}  # number of a function's node -> its bodies
        self.root_functions: dict[str, Any] = {}
        self.capture_ids: dict[int, int] = {}  # id of a captured tensor -> index of its object
        _, checkpointed, _ = self.view.serialize_object_graph()
        self.keys = {  # number of a variable -> its key in the checkpoint
            i: saved.attributes[0].checkpoint_key
            for i, saved in enumerate(checkpointed.nodes)
            if saved.attributes
        }
        for i, node in enumerate(list(self.nodes)):
            found = node.obj._list_functions_for_serialization()
            if i == 0:
                self.root_functions = found
            for child in self.view.list_dependencies(node.obj):
                node.children.append((child.name, self._ids[id(child.ref)]))
            for name, function in found.items():
                node.children.append((name, self._function_node(function)))
            handle = {"variable": "handle", "asset": "asset_path", "resource": "resource_handle"}.get(
                node.kind
            )
            if handle is not None:
                self.capture_ids[id(getattr(node.obj, handle))] = i

    def _function_node(self, function: Any) -> int:
        number = self._ids.get(id(function))
        if number is None:
            bodies = function._bodies_to_save() if isinstance(function, defun.Function) else [function]
            number = self.add(_Node(function, "function" if isinstance(function, defun.Function) else "bare"))
            self.functions[number] = bodies
        return number

    def add(self, node: _Node) -> int:
        """The number of a new node."""
        self.nodes.append(node)
        self._ids[id(node.obj)] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def add_signatures(self, signatures: dict[str, Any]) -> None:
        """Makes a map of signatures the root's child."""
        made = _Node(signatures, "signatures")
        self.nodes[0].children.append((signature_serialization.SIGNATURE_ATTRIBUTE_NAME, self.add(made)))
        for key, concrete in signatures.items():
            made.children.append((key, self._function_node(concrete)))

    def add_constants(self) -> None:
        """Adds nodes for the values that functions capture."""
        for concrete in self.concrete_functions():
            for capture in concrete.captured_inputs:
                if id(capture) in self.capture_ids or capture.dtype in (dtypes.resource, dtypes.variant):
                    continue
                if isinstance(capture, ops.EagerTensor):
                    self.capture_ids[id(capture)] = self.add(_Node(capture, "constant"))

    def concrete_functions(self) -> list[Any]:
        """All bodies, each once."""
        return list({f.name: f for bodies in self.functions.values() for f in bodies}.values())

    def of_kind(self, kind: str) -> list[tuple[int, Any]]:
        """(number, object) of each node of a kind."""
        return [(i, node.obj) for i, node in enumerate(self.nodes) if node.kind == kind]


def _kind_of(obj: Any) -> str:
    if isinstance(obj, variables.Variable):
        return "variable"
    if isinstance(obj, tracking.TrackableAsset):
        return "asset"
    if isinstance(obj, tracking.TrackableResource):
        return "resource"
    return "user"


_IDENTIFIERS = [
    (data_structures.Mapping, "trackable_dict_wrapper"),
    (data_structures.List, "trackable_list_wrapper"),
    (data_structures._TupleWrapper, "trackable_tuple_wrapper"),
]


def _identifier_of(obj: Any) -> str:
    for kind, identifier in _IDENTIFIERS:
        if isinstance(obj, kind):
            return identifier
    return "_generic_user_object"


class _Exporter:
    """Writes the graph and the messages of an object graph."""

    def __init__(self, objects: _ObjectGraph, export_dir: str) -> None:
        from millrace.core.protobuf import meta_graph_pb2, saved_object_graph_pb2

        self.objects = objects
        self.export_dir = export_dir
        self.graph = ops.Graph()
        self.tensors: dict[int, Any] = {}  # number of a node -> its tensor in the graph
        self.names: dict[int, str] = {}  # number of a variable -> its name
        self.asset_files: dict[int, str] = {}
        self.meta_graph = meta_graph_pb2.MetaGraphDef()
        self.proto = saved_object_graph_pb2.SavedObjectGraph()

    def export(self, signatures: dict[str, Any]) -> Any:
        """The MetaGraphDef; files of assets are copied."""
        with self.graph.as_default():
            for concrete in self.objects.concrete_functions():
                concrete.add_to_graph(self.graph)
            self._add_values()
            init_op = self._initializer()
            for key, concrete in signatures.items():
                self.meta_graph.signature_def[key].CopyFrom(self._signature(key, concrete))
            self.meta_graph.signature_def[constants.INIT_OP_SIGNATURE_KEY].CopyFrom(
                signature_def_utils_impl.op_signature_def(init_op, constants.INIT_OP_SIGNATURE_KEY)
            )
            self._add_saver()
        self._fill_object_graph()
        info = self.meta_graph.meta_info_def
        info.tags.append(tag_constants.SERVING)
        info.tensorflow_version = versions.VERSION
        info.tensorflow_git_version = versions.GIT_VERSION
        self.meta_graph.graph_def.CopyFrom(self.graph.as_graph_def())
        info.stripped_op_list.MergeFrom(meta_graph.stripped_op_list_for_graph(self.meta_graph.graph_def))
        return self.meta_graph

    def _add_values(self) -> None:
        for number, variable in self.objects.of_kind("variable"):
            name = self.graph.unique_name(variable._shared_name, mark_as_used=False)
            self.names[number] = name
            with ops.name_scope(None):
                self.tensors[number] = gen_resource.var_handle_op(
                    dtype=variable.dtype, shape=variable.shape, shared_name=name, name=name
                )
        for number, value in self.objects.of_kind("constant"):
            self.tensors[number] = ops.convert_to_tensor(value.numpy(), value.dtype)
        for number, asset in self.objects.of_kind("asset"):
            self._add_asset(number, compat.as_str(asset.asset_path.numpy()))

    def _add_asset(self, number: int, path: str) -> None:
        """Copies a file under a unique name, and adds its name to the graph."""
        folder = utils_impl.get_or_create_assets_dir(self.export_dir)
        stem, end = os.path.splitext(os.path.basename(path))
        name, count = stem + end, 0
        while name in self.asset_files.values():
            count += 1
            name = "%s_%d%s" % (stem, count, end)
        file_io.copy(path, os.path.join(folder, name), overwrite=True)
        self.asset_files[number] = name
        self.tensors[number] = ops.convert_to_tensor(path, name="asset_path_initializer")
        entry = self.meta_graph.asset_file_def.add(filename=name)
        entry.tensor_info.name = self.tensors[number].name

    def _call(self, concrete: Any, arguments: list[Any]) -> list[Any]:
        captured = [self.tensors[self.objects.capture_ids[id(t)]] for t in concrete.captured_inputs]
        results = functional_ops.partitioned_call(arguments + captured, concrete._defined)
        if isinstance(results, ops.Operation):
            return [results]
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def _signature(self, key: str, concrete: Any) -> Any:
        """Adds placeholders and a call to the graph; returns the SignatureDef."""
        inputs, arguments = {}, []
        for name, tensor in zip(concrete._arg_keywords, concrete._ordered_inputs()):
            inputs[name] = array_ops.placeholder(tensor.dtype, tensor.shape, name="%s_%s" % (key, name))
            arguments.append(inputs[name])
        results = self._call(concrete, arguments)
        outputs = {}
        for name, result, inner in zip(sorted(concrete.structured_outputs), results, concrete.outputs):
            result.set_shape(inner.shape)
            outputs[name] = result
        return signature_def_utils_impl.build_signature_def(
            {name: utils_impl.build_tensor_info(t) for name, t in inputs.items()},
            {name: utils_impl.build_tensor_info(t) for name, t in outputs.items()},
            method_name=signature_constants.PREDICT_METHOD_NAME,
        )

    def _initializer(self) -> Any:
        """Adds the operations that make and fill tables."""
        initializers = []
        functions = {
            number: {name: self.objects.functions[child][0] for name, child in self.objects.nodes[number].children
                     if child in self.objects.functions}
            for number, _ in self.objects.of_kind("resource")
        }  # fmt: skip
        for number, found in functions.items():
            self.tensors[number] = self._call(found["_create_resource"], [])[0]
        for found in functions.values():
            initializers.append(self._call(found["_initialize"], [])[0])
        return control_flow_ops.group(*initializers) if initializers else control_flow_ops.no_op()  # type: ignore[misc]

    def _add_saver(self) -> None:
        """Adds operations that save and restore the variables as the object-based checkpoint names them."""
        from millrace.core.protobuf import saver_pb2

        if not self.names:
            return
        own = [(self.objects.keys[number], number, obj) for number, obj in self.objects.of_kind("variable")]
        prefix = array_ops.placeholder(dtypes.string, [], name="saver_filename")
        values = [gen_resource.read_variable_op(self.tensors[i], dtype=v.dtype) for _, i, v in own]
        save = gen_io_ops.save_v2(prefix, [key for key, _, _ in own], [""] * len(own), values)
        with ops.control_dependencies([save]):
            saved = array_ops.identity(prefix, name="saver_save")
        restored = gen_io_ops.restore_v2(
            prefix, [key for key, _, _ in own], [""] * len(own), [v.dtype for _, _, v in own]
        )
        assigned = [
            gen_resource.assign_variable_op(self.tensors[i], t) for (_, i, _), t in zip(own, restored)
        ]
        restore = control_flow_ops.group(*assigned, name="saver_restore")
        self.meta_graph.saver_def.CopyFrom(
            saver_pb2.SaverDef(
                filename_tensor_name=prefix.name, save_tensor_name=saved.name, restore_op_name=restore.name,
                version=saver_pb2.SaverDef.V2,
            )  # fmt: skip
        )

    def _fill_object_graph(self) -> None:
        asset_numbers = {number: i for i, number in enumerate(self.asset_files)}
        for number, node in enumerate(self.objects.nodes):
            saved = self.proto.nodes.add()
            for name, child in node.children:
                saved.children.add(node_id=child, local_name=name)
            if node.kind == "user":
                for reference in self.objects.slot_variables.get(node.obj, ()):
                    saved.slot_variables.add(**reference._asdict())
            getattr(self, "_write_" + node.kind)(saved, number, node.obj)
            if node.kind == "asset":
                saved.asset.asset_file_def_index = asset_numbers[number]
        for concrete in self.objects.concrete_functions():
            self.proto.concrete_functions[concrete.name].CopyFrom(
                function_serialization.serialize_concrete_function(concrete, self.objects.capture_ids)
            )
        self.meta_graph.object_graph_def.CopyFrom(self.proto)

    def _write_variable(self, saved: Any, number: int, variable: Any) -> None:
        saved.variable.dtype = variable.dtype.base_dtype.as_datatype_enum
        saved.variable.shape.CopyFrom(variable.shape.as_proto())
        saved.variable.trainable = bool(variable.trainable)
        saved.variable.name = variable._shared_name

    def _write_user(self, saved: Any, number: int, obj: Any) -> None:
        saved.user_object.identifier = _identifier_of(obj)
        saved.user_object.version.producer = saved.user_object.version.min_consumer = 1

    def _write_signatures(self, saved: Any, number: int, obj: Any) -> None:
        saved.user_object.identifier = "signature_map"
        saved.user_object.version.producer = saved.user_object.version.min_consumer = 1

    def _write_asset(self, saved: Any, number: int, obj: Any) -> None:
        saved.asset.SetInParent()

    def _write_resource(self, saved: Any, number: int, obj: Any) -> None:
        saved.resource.SetInParent()

    def _write_constant(self, saved: Any, number: int, obj: Any) -> None:
        saved.constant.operation = self.tensors[number].op.name

    def _write_function(self, saved: Any, number: int, obj: Any) -> None:
        saved.function.CopyFrom(
            function_serialization.serialize_function(obj, self.objects.functions[number])
        )

    def _write_bare(self, saved: Any, number: int, obj: Any) -> None:
        saved.bare_concrete_function.CopyFrom(function_serialization.serialize_bare_concrete_function(obj))


def save(obj: Any, export_dir: str, signatures: Any = None) -> None:
    """Writes an object, and all objects reachable through attributes, as a SavedModel.

    Args:
      obj: a Trackable, such as a `tf.Module` or a `tf.train.Checkpoint`.
      export_dir: folder for the model.
      signatures: a `tf.function` with an input signature, a ConcreteFunction, or a dict of them by names: what other
        programs call. By default the object's only function with a signature.

    Raises:
      ValueError: `obj` is not trackable, or a signature is no function with known arguments.
      AssertionError: a function captures an object that is not reachable, or a graph is being built.
      RuntimeError: eager execution is not enabled.
    """
    from millrace.core.protobuf import saved_model_pb2

    if ops.inside_function():
        raise AssertionError(
            "`tf.saved_model.save` is not supported inside a traced @tf.function. Move the call to the outer "
            "eagerly-executed context."
        )
    if not isinstance(obj, base.Trackable):
        raise ValueError("Expected a Trackable object for export, got {}.".format(obj))
    if not ops.executing_eagerly():
        raise RuntimeError(
            "`tf.saved_model.save` is not supported when graph building. `tf.enable_eager_execution()` must run first; "
            "sessions are exported with `tf.saved_model.simple_save`."
        )
    export_dir = os.fspath(export_dir)
    objects = _ObjectGraph(obj)
    made = signature_serialization.canonicalize_signatures(
        signature_serialization.find_function_to_export(objects.root_functions)
        if signatures is None
        else signatures
    )
    objects.add_signatures(made)
    objects.add_constants()
    model = saved_model_pb2.SavedModel(saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION)
    exporter = _Exporter(objects, export_dir)
    for concrete in objects.concrete_functions():  # raises for untracked objects before anything is written
        function_serialization.serialize_concrete_function(concrete, objects.capture_ids)
    file_io.recursive_create_dir(export_dir)
    model.meta_graphs.add().CopyFrom(exporter.export(made))
    utils_impl.get_or_create_variables_dir(export_dir)
    _eager_saving.save_objects(objects.view, utils_impl.get_variables_path(export_dir))
    path = os.path.join(export_dir, constants.SAVED_MODEL_FILENAME_PB)
    file_io.atomic_write_string_to_file(path, model.SerializeToString(deterministic=True))
