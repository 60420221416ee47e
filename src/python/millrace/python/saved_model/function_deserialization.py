# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions, from the messages of a SavedObjectGraph and the library of its graph."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import def_function, function as defun
from millrace.python.framework import func_graph as func_graph_module
from millrace.python.framework import function_def_to_graph, importer, ops, tensor_spec
from millrace.python.ops import array_ops
from millrace.python.saved_model import nested_structure_coder
from millrace.python.util import nest


def _rename(library: Any, suffix: str) -> None:
    """Makes the names of all functions of a library unique."""
    names = {f.signature.name: "%s_%s" % (f.signature.name, suffix) for f in library.function}

    def rename_in(attrs: Any) -> None:
        for value in attrs.values():
            for func in [value.func] if value.HasField("func") else value.list.func:
                func.name = names.get(func.name, func.name)
                rename_in(func.attr)

    for function in library.function:
        function.signature.name = names[function.signature.name]
        for node in function.node_def:
            node.op = names.get(node.op, node.op)
            rename_in(node.attr)
    for gradient in library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)


class Library:
    """The functions of a model, whose names are made different from those of other models."""

    def __init__(self, library: Any) -> None:
        from millrace.core.framework import function_pb2

        self._library = function_pb2.FunctionDefLibrary()
        self._library.CopyFrom(library)
        self._given = {f.signature.name: i for i, f in enumerate(library.function)}
        _rename(self._library, str(ops.uid()))
        self._by_name = {f.signature.name: f for f in self._library.function}

    def find(self, name: str) -> Any:
        """The FunctionDef of a name in the model.

        Raises:
          KeyError: there is none.
        """
        return self._library.function[self._given[name]]

    def needed_by(self, fdef: Any) -> Any:
        """The library of the functions that a function calls, without itself."""
        from millrace.core.framework import graph_pb2

        found: dict[str, Any] = {}
        waiting = [fdef]
        while waiting:
            for node in waiting.pop().node_def:
                called = [node.op]
                for value in node.attr.values():
                    called += [f.name for f in ([value.func] if value.HasField("func") else value.list.func)]
                for name in called:
                    if name in self._by_name and name not in found:
                        found[name] = self._by_name[name]
                        waiting.append(found[name])
        graph_def = graph_pb2.GraphDef()
        graph_def.library.function.extend(found.values())
        return graph_def


def _shape_of_argument(spec: Any) -> Any:
    return spec.shape if isinstance(spec, tensor_spec.TensorSpec) else None


def recreate_concrete_function(
    saved: Any, fdef: Any, library: Library, captures: list[Any], used: list[Any]
) -> Any:
    """A ConcreteFunction.

    Args:
      saved: the SavedConcreteFunction.
      fdef: the FunctionDef.
      library: the functions that it calls.
      captures: tensors for the last arguments.
      used: the captured variables.
    """
    coder = nested_structure_coder.StructureCoder()
    signature = coder.decode_proto(saved.canonicalized_input_signature)
    graph = func_graph_module.FuncGraph(fdef.signature.name)
    specs: list[Any] = [
        s for s in nest.flatten(signature, expand_composites=True) if isinstance(s, tensor_spec.TensorSpec)
    ]
    arguments = list(fdef.signature.input_arg)
    count = len(arguments) - len(captures)
    if count < 0:
        raise ValueError("Function %s has fewer arguments than it captures." % fdef.signature.name)
    if len(specs) != count:
        specs = [None] * count
    with graph.as_default():
        inputs = []
        for arg, spec in zip(arguments, specs):
            inputs.append(array_ops.placeholder(arg.type, _shape_of_argument(spec), name=arg.name))
        for arg, capture in zip(arguments[count:], captures):
            inputs.append(func_graph_module._placeholder(capture, arg.name))
        _add_body(graph, fdef, library, {a.name: t for a, t in zip(arguments, inputs)})
    graph.inputs = inputs
    graph.extra_inputs, graph.extra_args = list(captures), inputs[count:]
    graph._captured = {id(t): p for t, p in zip(captures, inputs[count:])}
    graph.extra_vars = used
    graph.structured_input_signature = signature
    graph.structured_outputs = _pack(coder.decode_proto(saved.output_signature), graph.outputs)
    return defun.ConcreteFunction(graph)


def _add_body(graph: Any, fdef: Any, library: Library, arguments: dict[str, Any]) -> None:
    """Adds the nodes of a function to a graph, and names its results."""
    importer.import_graph_def(library.needed_by(fdef), name="")
    graph_def, names = function_def_to_graph.function_def_to_graph_def(fdef, copy_functions=False)
    nodes = [n for n in graph_def.node if n.name not in arguments]
    del graph_def.node[:]
    graph_def.node.extend(nodes)
    graph_def.ClearField("library")
    read = {
        name if ":" in name else name + ":0" for n in nodes for name in n.input if not name.startswith("^")
    }
    stand_ins = {name + ":0": t for name, t in arguments.items() if name + ":0" in read}
    importer.import_graph_def(graph_def, stand_ins, name="")
    graph.stateful_ops = [(op.name, op.type) for op in graph.get_operations() if op._is_stateful]
    for arg in fdef.signature.output_arg:
        name = fdef.ret[arg.name]
        graph.outputs.append(arguments[name] if name in arguments else graph.get_tensor_by_name(names[name]))
    graph.control_outputs = [
        graph.get_operation_by_name(fdef.control_ret[name]) for name in fdef.signature.control_output
    ]


def _pack(structure: Any, outputs: list[Any]) -> Any:
    """The structure of results with tensors in it, whose shapes are set."""
    remaining = iter(outputs)
    made = []
    for spec in nest.flatten(structure, expand_composites=True):
        tensor = next(remaining) if isinstance(spec, tensor_spec.TensorSpec) else spec
        if tensor is not spec:
            tensor.set_shape(spec.shape)
        made.append(tensor)
    return nest.pack_sequence_as(structure, made, expand_composites=True)


class RestoredFunction(def_function.Function):
    """A function of a model: a call runs the body that was saved for arguments of its types."""

    def __init__(self, name: str, function_spec: Any, concrete_functions: list[Any]) -> None:
        coder = nested_structure_coder.StructureCoder()
        spec = coder.decode_proto(function_spec.fullargspec)

        def restored_function(*args: Any, **kwargs: Any) -> Any:
            return self(*args, **kwargs)

        restored_function.__name__ = name
        super().__init__(restored_function, name)
        self._fullargspec = spec
        names = list(spec.args)
        self._method = function_spec.is_method
        # Functions of TensorFlow have "self" among their arguments.
        self._arg_names = names[1:] if self._method and names and names[0] == "self" else names
        self._input_signature = coder.decode_proto(function_spec.input_signature)
        self.concrete_functions = concrete_functions

    @property
    def _is_method(self) -> bool:
        return bool(self._method)

    def _bodies_to_save(self) -> list[Any]:
        return self.concrete_functions

    def _canonical(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        signature, self._input_signature = self._input_signature, None
        try:
            return super()._canonical(args, kwargs)
        finally:
            self._input_signature = signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._canonical(args, kwargs)
        for concrete in self.concrete_functions:
            fitting = _fitting(concrete, args, kwargs)
            if fitting is not None:
                return concrete._call_flat(fitting)
        raise ValueError(self._no_match(args, kwargs))

    def _concrete(self, args: Any, kwargs: Any) -> Any:
        for concrete in self.concrete_functions:
            if _fitting(concrete, args, kwargs, convert=False) is not None:
                return concrete
        raise ValueError(self._no_match(args, kwargs))

    def _no_match(self, args: Any, kwargs: Any) -> str:
        def described(positional: Any, named: Any) -> str:
            return "Positional arguments ({} total):\n    * {}\n  Keyword arguments: {}".format(
                len(positional), "\n    * ".join(str(a) for a in positional), named
            )

        options = []
        for i, concrete in enumerate(self.concrete_functions):
            options.append("Option {}:\n  {}".format(i + 1, described(*concrete.structured_input_signature)))
        return (
            "Could not find matching function to call loaded from the SavedModel. Got:\n  {}\n\nExpected these arguments "
            "to match one of the following {} option(s):\n\n{}".format(
                described(args, kwargs), len(options), "\n\n".join(options)
            )
        )


def _fitting(concrete: Any, args: Any, kwargs: Any, convert: bool = True) -> Any:
    """The tensors for a body, or None if the arguments do not match its signature."""
    expected = concrete.structured_input_signature
    try:
        # Lists may be converted to tensors.
        given = nest.flatten_up_to(expected, (tuple(args), kwargs))
    except (TypeError, ValueError):
        return None
    tensors = []
    for value, spec in zip(given, nest.flatten(expected)):
        if not isinstance(spec, tensor_spec.TensorSpec):
            if isinstance(value, ops.Tensor) or type(value) is not type(spec) or value != spec:
                return None
            continue
        if convert and not isinstance(value, (ops.Tensor, tensor_spec.TensorSpec)):
            try:
                value = ops.convert_to_tensor(value, dtype=spec.dtype)
            except (TypeError, ValueError):
                return None
        if not hasattr(value, "dtype") or not spec.is_compatible_with(value):
            return None
        tensors.append(value)
    return tensors
