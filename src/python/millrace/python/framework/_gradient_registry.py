# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient functions by the name of an op: those of Python first, then those of the engine."""
from __future__ import annotations

import traceback
from typing import Any, Callable, Optional

from millrace.python import _engine

UNDEFINED, DEFINED, NOT_DIFFERENTIABLE = 0, 1, 2

# Ops with a gradient in the engine, but none in TensorFlow 1.15: programs may register one.
_ONLY_IN_ENGINE = frozenset(
    """AccumulateNV2 CumulativeLogsumexp Dilation2DBackpropInput FusedBatchNormGradV2 GRUBlockCell LSTMBlockCell
    BlockLSTMV2 MaxPoolGradWithArgmax Qr RGBToHSV ResizeBicubicGrad ResizeBilinearGrad ResizeNearestNeighborGrad Roll
    SegmentProd Snapshot SparseSegmentMeanGrad SparseSegmentSqrtNGrad StatelessWhile TensorArrayGradV3 MirrorPadGrad
    UnsortedSegmentProd SparseFillEmptyRowsGrad Polygamma MulNoNan NextAfter Mod TruncateMod ExtractVolumePatches
    NthElement ClipByValue TridiagonalMatMul BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D
    BatchCholesky BatchMatrixSolve BatchMatrixInverse BatchMatrixDeterminant BatchMatrixTriangularSolve
    BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag""".split()
)


class EngineGradient:
    """The engine's gradient of an op: called with an operation and the gradients of its outputs.

    Returns the gradient of the input, or a list with one for each input where there are several; None represents
    an input that the outputs do not depend on.
    """

    def __init__(self, op_type: str) -> None:
        self._op_type = op_type
        self.__name__ = "_%sGrad" % op_type
        self.__doc__ = "The engine's gradient of %s." % op_type

    def __call__(self, op: Any, *grads: Any) -> Any:
        from millrace.python.ops import gradients_util

        results = gradients_util._call_engine_gradient(op, self._op_type, grads)
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return "<gradient of %s>" % self._op_type


_engine_gradients: dict[str, EngineGradient] = {}


def engine_gradient(op_type: str) -> EngineGradient:
    """The one object for the engine's gradient of an op."""
    found = _engine_gradients.get(op_type)
    if found is None:
        found = _engine_gradients[op_type] = EngineGradient(op_type)
    return found


def registration_place() -> str:
    """The function, file and line that called the caller of the function that registers."""
    frame = traceback.extract_stack(limit=4)[0]
    return "%s %s:%d" % (frame.name, frame.filename, frame.lineno or 0)


class GradientRegistry:
    """Gradient functions of Python by name. Names of the engine's gradients cannot be registered."""

    def __init__(self) -> None:
        self._name = "gradient"
        self._registry: dict[str, Any] = {}
        self._places: dict[str, str] = {}

    def register(self, candidate: Any, name: Optional[str] = None) -> None:
        """Registers a function, or None for an op that gradients do not flow through; KeyError for a taken name."""
        name = name or getattr(candidate, "__name__", None)
        if not name:
            raise ValueError("op_type must not be empty")
        if name in self._registry or (name not in _ONLY_IN_ENGINE and _engine.has_gradient(name)):
            raise KeyError(
                "Registering two %s with name '%s'! (Previous registration was in %s)"
                % (self._name, name, self._places.get(name, "the engine"))
            )
        self._registry[name] = candidate
        self._places[name] = registration_place()

    def list(self) -> Any:
        """The names that Python registered."""
        return self._registry.keys()

    def lookup(self, name: Any) -> Any:
        """The function of a name, None for non-differentiable ops; LookupError for an unknown one."""
        key = name.decode() if isinstance(name, bytes) else name
        if key in self._registry:
            return self._registry[key]
        known = _engine.has_gradient(key)
        if known == UNDEFINED:
            from millrace.python.ops import _python_gradients

            found, function = _python_gradients.find(key)
            if found:
                return function
            raise LookupError("%s registry has no entry for: %s" % (self._name, key))
        return engine_gradient(key) if known == DEFINED else None


def register_in_graph(graph: Any, name: str, function: Callable[..., Any] | None) -> None:
    """Registers `function` as gradient `name` for operations of one graph, as long as that exists."""
    functions = _functions_of(graph)
    functions[name] = function
    _declare(graph, name, function is not None)


def _functions_of(graph: Any) -> dict[str, Any]:
    functions: Optional[dict[str, Any]] = getattr(graph, "_gradient_functions", None)
    if functions is None:
        functions = graph._gradient_functions = {}
    return functions


def function_in_graph(graph: Any, name: str) -> Any:
    """The Python function of `name` for a graph; LookupError if there is none in Python."""
    around = graph
    while around is not None:  # a body may have been copied into or out of the outer graph
        functions = getattr(around, "_gradient_functions", None)
        if functions and name in functions:
            return functions[name]
        around = getattr(around, "_outer_graph", None)
    from millrace.python.framework._registries import _gradient_registry

    return _gradient_registry._registry[name]


def _declare(graph: Any, name: str, differentiable: bool) -> None:
    declared = getattr(graph, "_declared_gradients", None)
    if declared is None:
        declared = graph._declared_gradients = set()
    if name not in declared:
        declared.add(name)
        graph._declare_gradient(name, differentiable)


def declare_all(graph: Any, registry: GradientRegistry) -> bool:
    """Declares the gradients in Python to the graph; returns whether there are any."""
    count = len(registry._registry)
    if getattr(graph, "_gradients_seen", 0) != count:
        graph._gradients_seen = count
        for name, function in list(registry._registry.items()):
            _declare(graph, name, function is not None)
    for name, defined in graph._functions.items():
        python_gradient = getattr(defined, "python_grad_func", None)
        if python_gradient is not None and name not in _functions_of(graph):
            register_in_graph(graph, name, python_gradient)
    if graph._functions:
        from millrace.python.ops import _function_gradients

        for name, function in _function_gradients.entries(graph):
            if name not in _functions_of(graph):
                register_in_graph(graph, name, function)
    declared = getattr(graph, "_declared_gradients", None)
    return bool(registry._registry) or bool(declared)
