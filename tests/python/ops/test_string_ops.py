# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""String ops do what Python's strings do."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        session.run(tf.tables_initializer())
        return session.run(fetches, feed)


def test_joins_and_splits() -> None:
    assert run(tf.string_join([["a", "b"], "-", ["c", "d"]])).tolist() == [b"a-c", b"b-d"]
    assert run(tf.strings.join(["x", "y"], separator=", ")) == b"x, y"
    words = run(tf.string_split(["hello world", "a b c"]))
    assert words.values.tolist() == [b"hello", b"world", b"a", b"b", b"c"] and words.dense_shape.tolist() == [
        2,
        3,
    ]
    assert run(tf.string_split(["a,b;c"], delimiter=",;")).values.tolist() == [b"a", b"b", b"c"]
    assert run(tf.string_split([",a,,b"], ",", skip_empty=False)).values.tolist() == [b"", b"a", b"", b"b"]
    assert run(tf.strings.split(["a  b", "c"])).values.tolist() == [b"a", b"b", b"c"]
    assert run(tf.strings.split(["a--b--c"], sep="--", maxsplit=1)).values.tolist() == [b"a", b"b--c"]
    assert run(tf.reduce_join([["a", "b"], ["c", "d"]], 0)).tolist() == [b"ac", b"bd"]
    assert run(tf.reduce_join([["a", "b"], ["c", "d"]], separator=".")) == b"a.b.c.d"
    assert run(tf.reduce_join([["a", "b"]], 1, keep_dims=True)).tolist() == [[b"ab"]]


def test_segment_join(need: Any) -> None:
    need("UnsortedSegmentJoin")
    assert run(tf.strings.unsorted_segment_join(["a", "b", "c"], [0, 1, 0], 2, separator="+")).tolist() == [
        b"a+c",
        b"b",
    ]


def test_parts_and_lengths() -> None:
    assert run(tf.substr(["hello", "world"], 1, 3)).tolist() == [b"ell", b"orl"]
    assert run(tf.substr(["hello", "world"], [1, -2], [2, 2])).tolist() == [b"el", b"ld"]
    assert run(tf.strings.substr("h\u00e9llo", 1, 2, unit="UTF8_CHAR")) == "\u00e9l".encode()
    assert run(
        tf.string_length if hasattr(tf, "string_length") else tf.strings.length(["a", "bcd", ""])
    ).tolist() == [1, 3, 0]
    assert run(tf.strings.length("h\u00e9", unit="UTF8_CHAR")) == 2
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="pos 9 out of range for string ?b'hello' at index 0"
    ):
        run(tf.substr("hello", 9, 1))
    assert run(tf.string_strip(["  a b ", "\t\n"])).tolist() == [b"a b", b""]
    assert run(tf.strings.lower(["AbC"])).tolist() == [b"abc"] and run(
        tf.strings.upper(["AbC"])
    ).tolist() == [b"ABC"]


def test_regular_expressions() -> None:
    assert run(tf.regex_replace(["abc123", "x"], "[0-9]+", "#")).tolist() == [b"abc#", b"x"]
    assert run(tf.strings.regex_replace("a.b.c", "\\.", "-", replace_global=False)) == b"a-b.c"
    assert run(tf.strings.regex_replace("ab", "(a)(b)", "\\2\\1")) == b"ba"
    assert run(tf.strings.regex_full_match(["abc", "abd"], "ab[c]")).tolist() == [True, False]
    assert run(tf.strings.regex_replace("aa", tf.constant("a"), "b")) == b"bb"
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="Invalid pattern"):
        run(tf.strings.regex_replace("a", "((", "b"))


def test_numbers_and_texts() -> None:
    assert run(tf.string_to_number(["1.5", "-3"])).tolist() == [1.5, -3]
    assert run(tf.strings.to_number("7", tf.int64)) == 7
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="StringToNumberOp could not correctly convert string: x"
    ):
        run(tf.string_to_number("x"))
    assert run(tf.as_string([1, -2])).tolist() == [b"1", b"-2"]
    assert run(tf.as_string([1.5], precision=2)).tolist() == [b"1.50"]
    assert run(tf.as_string([True])).tolist() == [b"true"]
    assert run(tf.as_string([7], width=3, fill="0")).tolist() == [b"007"]
    with pytest.raises(
        ValueError, match="2 placeholder\\(s\\) in template does not match 1 tensor\\(s\\) provided as input"
    ):
        tf.strings.format("{} {}", [tf.constant(1)])


def test_numbers_beyond_all_ranges() -> None:
    zeros = "0" * 6000
    inf = float("inf")
    numbers = {
        f"0.{zeros}1": 0,
        f"1{zeros}": inf,
        f"1{zeros}e-1": inf,
        f"0.{zeros}1e2": 0,
        f"-1{zeros}e-1": -inf,
        f"0.{zeros}1e6010": 1e9,
        f"1{zeros}e-6000": 1,
        "0x1p-99999": 0,
        "0x1p99999": inf,
        f"0x0.{zeros}1p9": 0,
        f"0x1{zeros}p-9": inf,
        "1e-99999999999999999999": 0,
        "1e99999999999999999999": inf,
        "0e99999": 0,
    }
    for dtype in (tf.float32, tf.float64):
        assert run(tf.string_to_number(list(numbers), dtype)).tolist() == list(numbers.values())


def test_format(need: Any) -> None:
    need("StringFormat")
    assert run(tf.strings.format("x: {}, y: {}", [tf.constant([1, 2]), tf.constant("a")])) in (
        b"x: [1 2], y: a",
        b'x: [1 2], y: "a"',
    )


def test_hashes() -> None:
    assert run(tf.string_to_hash_bucket_fast(["a", "b", "c", "d"], 10)).tolist() == [9, 2, 2, 5]
    assert run(tf.string_to_hash_bucket_strong(["a", "b", "c"], 10, [98765, 132])).tolist() == [4, 2, 8]
    values = run(tf.string_to_hash_bucket(["a", "b", "c"], 10))
    assert values.tolist() == [8, 0, 7]


def test_base64() -> None:
    assert run(tf.encode_base64("hi there")) == b"aGkgdGhlcmU"
    assert run(tf.encode_base64("hi there", pad=True)) == b"aGkgdGhlcmU="
    assert run(tf.decode_base64("aGkgdGhlcmU")) == b"hi there"
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(tf.decode_base64("a?"))


def test_unicode(need: Any) -> None:
    need("UnicodeTranscode", "UnicodeScript", "UnicodeDecodeWithOffsets", "UnicodeEncode")
    assert run(tf.strings.unicode_transcode("h\u00e9", "UTF-8", "UTF-16-BE")) == "h\u00e9".encode("utf-16-be")
    assert run(tf.strings.unicode_script([0x61, 0x3B1])).tolist() == [25, 14]
    assert run(tf.strings.unicode_decode("h\u00e9", "UTF-8")).tolist() == [0x68, 0xE9]
    assert run(tf.strings.unicode_encode([0x68, 0xE9], "UTF-8")) == "h\u00e9".encode()
    chars, offsets = run(tf.strings.unicode_split_with_offsets("h\u00e9x", "UTF-8"))
    assert chars.tolist() == [b"h", "\u00e9".encode(), b"x"] and offsets.tolist() == [0, 1, 3]


def test_ngrams_and_bytes() -> None:
    assert run(tf.strings.ngrams(["a", "b", "c"], 2)).tolist() == [b"a b", b"b c"]
    assert run(tf.strings.ngrams(["a", "b"], 2, pad_values=("<", ">"), separator="|")).tolist() == [
        b"<|a",
        b"a|b",
        b"b|>",
    ]
    assert run(tf.strings.bytes_split("abc")).tolist() == [b"a", b"b", b"c"]
