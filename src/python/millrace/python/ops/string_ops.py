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
static_regex_full_match = gen_string_ops.static_regex_full_match
static_regex_replace = gen_string_ops.static_regex_replace
string_join = gen_string_ops.string_join
string_n_grams = gen_string_ops.string_n_grams
string_lower = gen_string_ops.string_lower
string_upper = gen_string_ops.string_upper
string_strip = gen_string_ops.string_strip
string_to_hash_bucket_fast = gen_string_ops.string_to_hash_bucket_fast
string_to_hash_bucket_strong = gen_string_ops.string_to_hash_bucket_strong
unicode_script = gen_string_ops.unicode_script
unicode_transcode = gen_string_ops.unicode_transcode
unsorted_segment_join = gen_string_ops.unsorted_segment_join


def regex_full_match(input: Any, pattern: Any, name: Optional[str] = None) -> Any:
    """Returns for each string whether all of it matches the regular expression (syntax of RE2)."""
    if isinstance(pattern, compat.bytes_or_text_types):
        return gen_string_ops.static_regex_full_match(input=input, pattern=pattern, name=name)
    return gen_string_ops.regex_full_match(input=input, pattern=pattern, name=name)


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: Optional[str] = None
) -> Any:
    """Replaces the first match, or all of them, by `rewrite`, in which \\1 to \\9 represent groups."""
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
    """Replaces the placeholders in `template` by the texts of tensors; ValueError when counts differ."""
    if not isinstance(template, str) or not isinstance(placeholder, str):
        raise TypeError("template and placeholder must be strings, got %r and %r." % (template, placeholder))
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
    source: Any,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = None,
    result_type: str = "SparseTensor",
    name: Optional[str] = None,
) -> Any:
    """Splits a vector of strings at any of the characters of `delimiter`; returns a sparse tensor of tokens.

    The only `result_type` is "SparseTensor"; ValueError and NotImplementedError for others.
    """
    _check_result_type(result_type)
    delimiter = deprecation.deprecated_argument_lookup("sep", sep, "delimiter", delimiter)
    if delimiter is None:
        delimiter = " "
    delimiter = ops.convert_to_tensor(delimiter, dtype=dtypes.string)
    source = ops.convert_to_tensor(source, dtype=dtypes.string)
    indices, values, shape = gen_string_ops.string_split(
        source, delimiter=delimiter, skip_empty=skip_empty, name=name
    )
    indices.set_shape([None, 2])
    values.set_shape([None])
    shape.set_shape([2])
    return sparse_tensor.SparseTensor(indices, values, shape)


def _check_result_type(result_type: str) -> None:
    if result_type == "RaggedTensor":
        raise NotImplementedError("result_type='RaggedTensor' is not implemented; use 'SparseTensor'.")
    if result_type != "SparseTensor":
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")


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
        _check_result_type(result_type)
        if input.shape.ndims == 0:
            input = array_ops.expand_dims(input, 0)
        return string_split_v2(input, sep=sep, maxsplit=maxsplit)


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


def _scalar_only(input: Any, function: str) -> Any:
    """Returns `input` as a tensor; NotImplementedError where the result would be ragged."""
    input = ops.convert_to_tensor(input, dtype=dtypes.string, name="input")
    if input.shape.ndims != 0:
        raise NotImplementedError(
            "%s of a tensor of rank %s would return a RaggedTensor, which is not implemented; use a scalar, "
            "tf.map_fn or tf.string_split." % (function, input.shape.ndims)
        )
    return input


def string_bytes_split(input: Any, name: Optional[str] = None) -> Any:
    """Returns the bytes of a scalar string as a vector of strings of length 1."""
    with ops.name_scope(name, "StringsByteSplit", [input]):
        input = _scalar_only(input, "tf.strings.bytes_split")
        return gen_string_ops.string_split(array_ops.expand_dims(input, 0), delimiter="", skip_empty=False)[1]


bytes_split = string_bytes_split


def unicode_encode(
    input: Any,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: Optional[str] = None,
) -> Any:
    """Returns code points, int32 [..., n], as strings [...] in an encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE"."""
    with ops.name_scope(name, "UnicodeEncode", [input]):
        points = ops.convert_to_tensor(input, dtype=dtypes.int32)
        if points.shape.ndims is None:
            raise ValueError("Rank of input_tensor must be statically known.")
        shape = array_ops.shape(points)
        # Each row of a matrix is one string, and the rows have one length.
        flat = array_ops.reshape(points, [-1])
        rows = math_ops.reduce_prod(shape[:-1])
        splits = math_ops.range(rows + 1) * shape[-1]
        encoded = gen_string_ops.unicode_encode(
            flat,
            math_ops.cast(splits, dtypes.int64),
            output_encoding=output_encoding,
            errors=errors,
            replacement_char=replacement_char,
        )
        return array_ops.reshape(encoded, shape[:-1])


def _decode(input: Any, function: str, encoding: str, errors: str, char: int, controls: bool) -> Any:
    input = _scalar_only(input, function)
    return gen_string_ops.unicode_decode_with_offsets(
        input=array_ops.expand_dims(input, 0),
        input_encoding=encoding,
        errors=errors,
        replacement_char=char,
        replace_control_characters=controls,
    )


def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Returns the code points, int32 [n], of a scalar string."""
    with ops.name_scope(name, "UnicodeDecode", [input]):
        return _decode(
            input,
            "tf.strings.unicode_decode",
            input_encoding,
            errors,
            replacement_char,
            replace_control_characters,
        )[1]


def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Returns (code points, int32 [n], the byte at which each begins, int64 [n]) of a scalar string."""
    with ops.name_scope(name, "UnicodeDecodeWithOffsets", [input]):
        decoded = _decode(
            input,
            "tf.strings.unicode_decode_with_offsets",
            input_encoding,
            errors,
            replacement_char,
            replace_control_characters,
        )
        return decoded[1], decoded[2]


def unicode_split(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: Optional[str] = None,
) -> Any:
    """Returns the characters of a scalar string, each a string of its own."""
    with ops.name_scope(name, "UnicodeSplit", [input]):
        points = _decode(input, "tf.strings.unicode_split", input_encoding, errors, replacement_char, False)[
            1
        ]
        return unicode_encode(array_ops.expand_dims(points, -1), input_encoding, errors, replacement_char)


def unicode_split_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: Optional[str] = None,
) -> Any:
    """Returns (characters, the byte at which each begins) of a scalar string."""
    with ops.name_scope(name, "UnicodeSplitWithOffsets", [input]):
        decoded = _decode(
            input, "tf.strings.unicode_split_with_offsets", input_encoding, errors, replacement_char, False
        )
        points = array_ops.expand_dims(decoded[1], -1)
        return unicode_encode(points, input_encoding, errors, replacement_char), decoded[2]


def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: Optional[int] = None,
    preserve_short_sequences: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Returns the n-grams of a vector of strings, joined by `separator`.

    Args:
      data: strings [n].
      ngram_width: an integer, or several, whose n-grams follow each other.
      separator: the string between the strings of an n-gram.
      pad_values: one string, or two for left and right, with which the ends are padded.
      padding_width: how many are added at each end; by default, and at most, the width - 1.
      preserve_short_sequences: whether a vector shorter than the width becomes one n-gram.
      name: name scope.

    Raises:
      TypeError, ValueError: another value of an argument.
      NotImplementedError: `data` is no vector: the result would be ragged.
    """
    with ops.name_scope(name, "StringNGrams", [data]):
        left_pad: Any = ""
        right_pad: Any = ""
        if pad_values is not None:
            if isinstance(pad_values, (list, tuple)):
                if (
                    len(pad_values) != 2
                    or not isinstance(pad_values[0], bytes)
                    and not isinstance(pad_values[0], str)
                ):
                    raise TypeError("pad_values must be a string, tuple of strings, or None.")
                left_pad, right_pad = pad_values
            elif isinstance(pad_values, compat.bytes_or_text_types):
                left_pad = right_pad = pad_values
            else:
                raise TypeError("pad_values must be a string, tuple of strings, or None.")
        if padding_width is not None and padding_width < 1:
            raise ValueError("padding_width must be greater than 0.")
        if padding_width is not None and pad_values is None:
            raise ValueError("pad_values must be provided if padding_width is set.")
        data = ops.convert_to_tensor(data, dtype=dtypes.string, name="data")
        if data.shape.ndims != 1:
            raise NotImplementedError(
                "tf.strings.ngrams of a tensor of rank %s would return a RaggedTensor, which is not implemented; "
                "use a vector." % data.shape.ndims
            )
        widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
        if any(n < 1 for n in widths):
            raise ValueError("All ngram_widths must be greater than 0. Got %s" % widths)
        # More padding than width - 1 has no effect on n-grams.
        pad_width = 0 if pad_values is None else (-1 if padding_width is None else padding_width)
        splits = array_ops.stack([0, array_ops.size(data)])
        return gen_string_ops.string_n_grams(
            data=data,
            data_splits=math_ops.cast(splits, dtypes.int64),
            separator=separator,
            ngram_widths=widths,
            left_pad=left_pad,
            right_pad=right_pad,
            pad_width=pad_width,
            preserve_short_sequences=preserve_short_sequences,
        )[0]
