# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes of a model's variables, of tf.contrib.slim."""
from __future__ import annotations

from typing import Any


def tensor_description(var: Any) -> str:
    """Type and shape of a tensor or variable, as in `float32_ref 5x5x3`."""
    dims = "x".join(str(dim) for dim in var.get_shape().as_list())
    return ("%s %s" % (var.dtype.name, dims)).rstrip()


def analyze_vars(variables: Any, print_info: bool = False) -> tuple[int, int]:
    """The number of elements and of bytes of all variables.

    Args:
      variables: variables of known shapes.
      print_info: whether to print a line for each and the sums.
    """
    if print_info:
        print("---------\nVariables: name (type shape) [size]\n---------")
    size = size_in_bytes = 0
    for var in variables:
        elements = var.get_shape().num_elements()
        bytes_ = elements * var.dtype.size
        size, size_in_bytes = size + elements, size_in_bytes + bytes_
        if print_info:
            print(var.name, "(%s)" % tensor_description(var), "[%d, bytes: %d]" % (elements, bytes_))
    if print_info:
        print("Total size of variables: %d\nTotal bytes of variables: %d" % (size, size_in_bytes))
    return size, size_in_bytes
