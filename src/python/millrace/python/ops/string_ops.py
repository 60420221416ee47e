# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops on strings."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import constant_op, dtypes, ops, sparse_tensor, tensor_util
from millrace.python.ops import array_ops, gen_parsing_ops, gen_string_ops, math_ops
from millrace.python.util import compat, deprecation

as_string = gen_string_ops.as_string
base64_encode = encode_base64 = gen_string_ops.encode_base64
base64_decode = decode_base64 = gen_string_ops.decode_base64
string_join = gen_string_ops.string_join
string_lower = gen_string_ops.string_lower
string_upper = gen_string_ops.string_upper
string_strip = gen_string_ops.string_strip
string_to_hash_bucket_fast = gen_string_ops.string_to_hash_bucket_fast
string_to_hash_bucket_strong = gen_string_ops.string_to_hash_bucket_strong
unicode_script = gen_string_ops.unicode_script
unicode_transcode = gen_string_ops.unicode_transcode
unsorted_segment_join = gen_string_ops.unsorted_segment_join


def regex_full_match(input: Any, pattern: Any, name: Optional[str] = None) -> Any:
    """Says for each string whether all of it matches the regular expression (syntax of RE2)."""
    if isinstance(pattern, compat.bytes_or_text_types):
        return gen_string_ops.static_regex_full_match(input=input, pattern=pattern, name=name)
    return gen_string_ops.regex_full_match(input=input, pattern=pattern, name=name)


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: Optional[str] = None
) -> Any:
    """Replaces the first match, or all of them, by `rewrite`, in which \\1 to \\9 stand for groups."""
    if isinstance(pattern, compat.bytes_or_text_types) and isinstance(rewrite, compat.bytes_or_text_types):
        return gen_string_ops.static_regex_replace(
            input=input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name
        )
    return gen_string_ops.regex_replace(
        input=input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name
    )


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: Optional[str] = None
) -> Any:
    """Puts the texts of tensors in the places of `template`; ValueError when their counts differ."""
    if tensor_util.is_tensor(inputs) or not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    if template.count(placeholder) != len(inputs):
        raise ValueError(
            "%s placeholder(s) in template does not match %s tensor(s) provided as input"
            % (template.count(placeholder), len(inputs))
        )
    return gen_string_ops.string_format(
        inputs, template=template, placeholder=placeholder, summarize=summarize, name=name
    )


def string_split(
    source: Any, sep: Any = None, skip_empty: bool = True, delimiter: Any = None, name: Optional[str] = None
) -> Any:
    """Splits a vector of strings at any of the characters of `delimiter`; returns a sparse tensor of tokens."""
    delimiter = deprecation.deprecated_argument_lookup("sep", sep, "delimiter", delimiter)
    if delimiter is None:
        delimiter = " "
    delimiter = ops.convert_to_tensor(delimiter, dtype=dtypes.string)
    source = ops.convert_to_tensor(source, dtype=dtypes.string)
    indices, values, shape = gen_string_ops.string_split(source, delimiter=delimiter, skip_empty=skip_empty, name=name)
    indices.set_shape([None, 2])
    values.set_shape([None])
    shape.set_shape([2])
    return sparse_tensor.SparseTensor(indices, values, shape)


def string_split_v2(source: Any, sep: Any = None, maxsplit: int = -1) -> Any:
    """Splits a vector of strings at `sep` (default: white space) as Python does; returns a sparse tensor."""
    sep = ops.convert_to_tensor("" if sep is None else sep, dtype=dtypes.string)
    source = ops.convert_to_tensor(source, dtype=dtypes.string)
    indices, values, shape = gen_string_ops.string_split_v2(source, sep=sep, maxsplit=maxsplit)
    indices.set_shape([None, 2])
    values.set_shape([None])
    shape.set_shape([2])
    return sparse_tensor.SparseTensor(indices, values, shape)


def string_split_v1(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: Optional[str] = None,
) -> Any:
    """`tf.strings.split`; the only type of result is "SparseTensor"."""
    input = deprecation.deprecated_argument_lookup("input", input, "source", source)
    with ops.name_scope(name, "StringSplit", [input]):
        input = ops.convert_to_tensor(input, dtype=dtypes.string, name="input")
        if result_type == "SparseTensor":
            if input.shape.ndims == 0:
                input = array_ops.expand_dims(input, 0)
            return string_split_v2(input, sep=sep, maxsplit=maxsplit)
        if result_type == "RaggedTensor":
            raise NotImplementedError("result_type='RaggedTensor' is not there; use result_type='SparseTensor'.")
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")


def _reduce_join_reduction_dims(x: Any, axis: Any) -> Any:
    if axis is not None:
        return axis
    if x.get_shape().ndims is not None:
        return constant_op.constant(list(range(x.get_shape().ndims - 1, -1, -1)), dtype=dtypes.int32)
    return math_ops.range(array_ops.rank(x) - 1, -1, -1)


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: Any = None,
    separator: str = "",
    name: Optional[str] = None,
    reduction_indices: Any = None,
    keepdims: Any = None,
) -> Any:
    """Joins strings over `axis` (default: all), with a separator between them."""
    keepdims = deprecation.deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims)
    axis = deprecation.deprecated_argument_lookup("axis", axis, "reduction_indices", reduction_indices)
    return reduce_join_v2(inputs, axis, bool(keepdims), separator, name)


def reduce_join_v2(
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "", name: Optional[str] = None
) -> Any:
    """As `reduce_join`, with the arguments of version 2."""
    with ops.name_scope(None, "ReduceJoin", [inputs, axis]):
        inputs_t = ops.convert_to_tensor(inputs)
        axis = _reduce_join_reduction_dims(inputs_t, axis)
        return gen_string_ops.reduce_join(
            inputs=inputs_t, reduction_indices=axis, keep_dims=keepdims, separator=separator, name=name
        )


def string_length(input: Any, name: Optional[str] = None, unit: str = "BYTE") -> Any:
    """Returns the lengths of strings in bytes, or in characters of UTF-8 (`unit` "UTF8_CHAR")."""
    return gen_string_ops.string_length(input, unit=unit, name=name)


def string_length_v2(input: Any, unit: str = "BYTE", name: Optional[str] = None) -> Any:
    """As `string_length`, with the arguments of version 2."""
    return gen_string_ops.string_length(input, unit=unit, name=name)


def substr(input: Any, pos: Any, len: Any, name: Optional[str] = None, unit: str = "BYTE") -> Any:
    """Returns `len` bytes (or characters) of each string from `pos` on."""
    return gen_string_ops.substr(input, pos, len, unit=unit, name=name)


def substr_v2(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: Optional[str] = None) -> Any:
    """As `substr`, with the arguments of version 2."""
    return gen_string_ops.substr(input, pos, len, unit=unit, name=name)


substr_deprecated = substr


def string_to_number(
    string_tensor: Any = None, out_type: Any = dtypes.float32, name: Optional[str] = None, input: Any = None
) -> Any:
    """Returns strings as numbers."""
    string_tensor = deprecation.deprecated_argument_lookup("input", input, "string_tensor", string_tensor)
    return gen_parsing_ops.string_to_number(string_tensor, out_type, name)


string_to_number_v1 = string_to_number


def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: Any = None, name: Optional[str] = None, input: Any = None
) -> Any:
    """Returns the hash of each string modulo `num_buckets`."""
    string_tensor = deprecation.deprecated_argument_lookup("input", input, "string_tensor", string_tensor)
    return gen_string_ops.string_to_hash_bucket(string_tensor, num_buckets, name)


string_to_hash_bucket_v1 = string_to_hash_bucket
