# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Values for `json.dumps(..., default=get_json_type)`."""
from __future__ import annotations

import collections.abc
from typing import Any

import numpy as np


def get_json_type(obj: Any) -> Any:
    """Returns a value of JSON that represents `obj`; TypeError if there is none."""
    from millrace.python.framework import dtypes, tensor_shape

    if hasattr(obj, "get_config"):
        return {"class_name": obj.__class__.__name__, "config": obj.get_config()}
    if isinstance(obj, np.ndarray):
        return obj.tolist()
    if isinstance(obj, np.generic):
        return obj.item()
    if isinstance(obj, tensor_shape.Dimension):
        return obj.value
    if isinstance(obj, tensor_shape.TensorShape):
        return obj.as_list() if obj.dims is not None else None
    if isinstance(obj, dtypes.DType):
        return obj.name
    if callable(obj):
        return obj.__name__
    if isinstance(obj, collections.abc.Mapping):
        return dict(obj)
    if isinstance(obj, type):
        return obj.__name__
    raise TypeError("Not JSON Serializable:", obj)
