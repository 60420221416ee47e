# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Prints the contents of a checkpoint.

    python -m millrace.python.tools.inspect_checkpoint --file_name=model.ckpt --all_tensors
"""
from __future__ import annotations

import argparse
import re
import sys
from typing import Any

import numpy as np

from millrace.python.framework import errors_impl
from millrace.python.platform import app
from millrace.python.training import py_checkpoint_reader

FLAGS: Any = None


def _count_total_params(reader: Any, count_exclude_pattern: str = "") -> int:
    """The number of elements of the variables whose names a pattern does not match."""
    shapes = reader.get_variable_to_shape_map()
    if count_exclude_pattern:
        patterns = [re.compile(p) for p in re.split(",", count_exclude_pattern)]
        shapes = {name: shape for name, shape in shapes.items() if not any(p.search(name) for p in patterns)}
    return sum(int(np.prod(shape)) for shape in shapes.values())


def print_tensors_in_checkpoint_file(
    file_name: str,
    tensor_name: Any,
    all_tensors: bool,
    all_tensor_names: bool = False,
    count_exclude_pattern: str = "",
) -> None:
    """Prints tensors of a checkpoint.

    Args:
      file_name: its prefix.
      tensor_name: the tensor to print; none with the next two.
      all_tensors: whether all are printed.
      all_tensor_names: whether the names of all are.
      count_exclude_pattern: patterns, with commas between, of variables that do not count as parameters.
    """
    try:
        reader = py_checkpoint_reader.NewCheckpointReader(file_name)
        if all_tensors or all_tensor_names:
            for key, dtype in sorted(reader.get_variable_to_dtype_map().items()):
                print("tensor_name: %s (%s) %s" % (key, dtype.name, _shape_text(reader, key)))
                if all_tensors:
                    print(reader.get_tensor(key))
        elif not tensor_name:
            print(reader.debug_string().decode("utf-8", errors="ignore"))
        else:
            if not reader.has_tensor(tensor_name):
                print("Tensor %s not found in checkpoint" % tensor_name)
                return
            print("tensor_name: ", tensor_name)
            print(reader.get_tensor(tensor_name))
        print("# Total number of params: %d" % _count_total_params(reader, count_exclude_pattern))
    except errors_impl.OpError as e:
        print(str(e))
        if "corrupted compressed block contents" in str(e):
            print("It's likely that your checkpoint file has been compressed with SNAPPY.")
        if "Data loss" in str(e) and any(e_ in file_name for e_ in (".index", ".meta", ".data")):
            print("It's likely that this is a V2 checkpoint and you need to provide the filename *prefix*.")


def _shape_text(reader: Any, key: str) -> str:
    return "[%s]" % ",".join(str(size) for size in reader.get_variable_to_shape_map()[key])


def parse_numpy_printoption(kv_str: str) -> None:
    """Sets one of NumPy's print options: "key=value".

    Raises:
      argparse.ArgumentTypeError: it is no such text, or no option of numbers, bools or strings.
    """
    parts = kv_str.split("=", 1)
    if len(parts) != 2:
        raise argparse.ArgumentTypeError("'%s' is not in the form k=v." % kv_str)
    key, text = parts
    options: dict[str, Any] = dict(np.get_printoptions())
    if key not in options:
        raise argparse.ArgumentTypeError("'%s' is not a valid printoption." % key)
    kind = type(options[key])
    if kind is type(None):
        raise argparse.ArgumentTypeError("Setting '%s' from the command line is not supported." % key)
    try:
        value = text.lower() in ("1", "true") if kind is bool else kind(text)
        np.set_printoptions(**{key: value})
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def main(unused_argv: Any) -> None:
    """Prints the parts selected by the flags."""
    if not FLAGS.file_name:
        print(
            "Usage: inspect_checkpoint --file_name=checkpoint_file_name [--tensor_name=tensor_to_print] [--all_tensors] [--all_tensor_names] [--printoptions]"
        )
        sys.exit(1)
    print_tensors_in_checkpoint_file(
        FLAGS.file_name, FLAGS.tensor_name, FLAGS.all_tensors, FLAGS.all_tensor_names,
        count_exclude_pattern=FLAGS.count_exclude_pattern,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    yes_or_no: dict[str, Any] = {"nargs": "?", "const": True, "type": lambda text: text.lower() == "true"}
    parser.add_argument("--file_name", default="", help="prefix of the checkpoint")
    parser.add_argument("--tensor_name", default="", help="the tensor to print")
    parser.add_argument("--count_exclude_pattern", default="", help="patterns of tensors that are not parameters")
    parser.add_argument("--all_tensors", default=False, help="print all tensors", **yes_or_no)
    parser.add_argument("--all_tensor_names", default=False, help="print the names of all", **yes_or_no)
    parser.add_argument("--printoptions", nargs="*", type=parse_numpy_printoption, help="NumPy's, as k=v")
    FLAGS, rest = parser.parse_known_args()
    app.run(main=main, argv=[sys.argv[0]] + rest)
