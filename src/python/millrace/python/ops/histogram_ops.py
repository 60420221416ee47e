# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Histograms."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, clip_ops, control_flow_ops, check_ops, gen_math_ops, math_ops


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: Optional[str] = None
) -> Any:
    """Returns the index of the bin of each value; values outside of the range get the first or last."""
    with ops.name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = ops.convert_to_tensor(values, name="values")
        shape = array_ops.shape(values)
        values = array_ops.reshape(values, [-1])
        value_range = ops.convert_to_tensor(value_range, name="value_range")
        nbins = ops.convert_to_tensor(nbins, dtype=dtypes.int32, name="nbins")
        check = check_ops.assert_positive(nbins, data=["nbins must be > 0"])
        nbins = control_flow_ops.with_dependencies([check], nbins)
        nbins_float = math_ops.cast(nbins, values.dtype)
        scaled = math_ops.truediv(
            values - value_range[0], value_range[1] - value_range[0], name="scaled_values"
        )
        indices = math_ops.floor(nbins_float * scaled, name="indices")
        indices = math_ops.cast(clip_ops.clip_by_value(indices, 0, nbins_float - 1), dtypes.int32)
        return math_ops.cast(array_ops.reshape(indices, shape), dtype)


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: Optional[str] = None
) -> Any:
    """Returns the counts of values in `nbins` bins of equal width over `value_range`."""
    with ops.name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as name:
        return gen_math_ops._histogram_fixed_width(values, value_range, nbins, dtype=dtype, name=name)
