# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The requirements of a layer on its inputs."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, tensor_shape
from millrace.python.util import nest


class InputSpec:
    """Requirements on one input: type, shape, rank (exact, minimum, maximum), sizes of axes; or None."""

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: Optional[int] = None,
        max_ndim: Optional[int] = None,
        min_ndim: Optional[int] = None,
        axes: Any = None,
    ):
        self.dtype = dtypes.as_dtype(dtype).name if dtype is not None else None
        if shape is not None:
            self.ndim: Optional[int] = len(shape)
            self.shape = shape
        else:
            self.ndim = ndim
            self.shape = None
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        if axes is not None and not hasattr(axes, "items"):
            raise TypeError("axes must be a dict, got: %r" % (axes,))
        try:
            self.axes = {int(k): v for k, v in (axes or {}).items()}
        except (ValueError, TypeError):
            raise TypeError("The keys in axes must be integers.") from None
        if self.axes and (self.ndim is not None or self.max_ndim is not None):
            max_dim = (self.ndim if self.ndim else self.max_ndim or 0) - 1
            max_axis = max(self.axes)
            if max_axis > max_dim:
                raise ValueError(
                    "Axis {} is greater than the maximum allowed value: {}".format(max_axis, max_dim)
                )

    def __repr__(self) -> str:
        spec = [
            ("dtype=" + str(self.dtype)) if self.dtype else "",
            ("shape=" + str(self.shape)) if self.shape else "",
            ("ndim=" + str(self.ndim)) if self.ndim else "",
            ("max_ndim=" + str(self.max_ndim)) if self.max_ndim else "",
            ("min_ndim=" + str(self.min_ndim)) if self.min_ndim else "",
            ("axes=" + str(self.axes)) if self.axes else "",
        ]
        return "InputSpec(%s)" % ", ".join(x for x in spec if x)

    def get_config(self) -> Any:
        """Returns the arguments of the constructor."""
        names = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: Any) -> "InputSpec":
        """Makes one from `get_config()`."""
        return cls(**config)


def _refuse(index: int, layer_name: str, text: str) -> None:
    raise ValueError("Input %d of layer %s is incompatible with the layer: %s" % (index, layer_name, text))


def assert_input_compatibility(input_spec: Any, inputs: Any, layer_name: str) -> None:
    """Raises ValueError when inputs do not meet the specifications of a layer."""
    if not input_spec:
        return
    specs = input_spec if isinstance(input_spec, (list, tuple)) else nest.flatten(input_spec)
    inputs = nest.flatten(inputs)
    if len(inputs) != len(specs):
        raise ValueError(
            "Layer %s expects %d inputs, but it received %d input tensors. Inputs received: %s"
            % (layer_name, len(specs), len(inputs), inputs)
        )
    for index, (x, spec) in enumerate(zip(inputs, specs)):
        if spec is None:
            continue
        needs_rank = spec.ndim is not None or spec.min_ndim is not None or spec.max_ndim is not None
        if not hasattr(x, "shape") or not hasattr(x.shape, "ndims"):
            raise TypeError("Input %d of layer %s is not a tensor: %r" % (index, layer_name, x))
        ndim = x.shape.ndims
        if needs_rank and ndim is None:
            _refuse(index, layer_name, "its rank is undefined, but the layer requires a defined rank.")
        if spec.ndim is not None and ndim != spec.ndim:
            shown = x.shape.as_list()
            _refuse(
                index,
                layer_name,
                "expected ndim=%s, found ndim=%s. Full shape received: %s" % (spec.ndim, ndim, shown),
            )
        if spec.max_ndim is not None and ndim > spec.max_ndim:
            _refuse(index, layer_name, "expected max_ndim=%s, found ndim=%s" % (spec.max_ndim, ndim))
        if spec.min_ndim is not None and ndim < spec.min_ndim:
            shown = x.shape.as_list()
            _refuse(
                index,
                layer_name,
                ": expected min_ndim=%s, found ndim=%s. Full shape received: %s"
                % (spec.min_ndim, ndim, shown),
            )
        if spec.dtype is not None and x.dtype.name != spec.dtype:
            _refuse(index, layer_name, "expected dtype=%s, found dtype=%s" % (spec.dtype, x.dtype))
        if ndim is not None:
            _check_dims(index, layer_name, spec, x.shape.as_list())


def _check_dims(index: int, layer_name: str, spec: InputSpec, shape: Any) -> None:
    for axis, value in spec.axes.items():
        value = tensor_shape.dimension_value(value)
        if value is not None and shape[int(axis)] not in (value, None):
            text = "expected axis %s of input shape to have value %s but received input with shape %s"
            _refuse(index, layer_name, text % (axis, value, shape))
    if spec.shape is not None:
        for wanted, got in zip(spec.shape, shape):
            wanted = tensor_shape.dimension_value(wanted)
            if wanted is not None and got is not None and wanted != got:
                _refuse(index, layer_name, "expected shape=%s, found shape=%s" % (spec.shape, shape))
