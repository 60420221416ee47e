# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Shows the contents of a SavedModel, and runs it.

    python -m millrace.python.tools.saved_model_cli show --dir /tmp/model --all
    python -m millrace.python.tools.saved_model_cli run --dir /tmp/model --tag_set serve
        --signature_def serving_default --input_exprs 'x=[[1.0, 2.0]]'
"""
from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from typing import Any

import numpy as np

from millrace.core.example import example_pb2
from millrace.core.framework import types_pb2
from millrace.python.client import session
from millrace.python.framework import ops as ops_lib
from millrace.python.lib.io import file_io
from millrace.python.saved_model import loader
from millrace.python.tools import saved_model_utils

_OP_BLACKLIST = set(["WriteFile", "ReadFile"])


def _show_tag_sets(saved_model_dir: str) -> None:
    print("The given SavedModel contains the following tag-sets:")
    for tag_set in sorted(saved_model_utils.get_saved_model_tag_sets(saved_model_dir)):
        print(", ".join(sorted(tag_set)))


def _show_signature_def_map_keys(saved_model_dir: str, tag_set: str) -> None:
    signature_def_map = get_signature_def_map(saved_model_dir, tag_set)
    print("The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:")
    for key in sorted(signature_def_map):
        print('SignatureDef key: "%s"' % key)


def get_signature_def_map(saved_model_dir: str, tag_set: str) -> Any:
    """The signatures of the MetaGraphDef with these tags."""
    return saved_model_utils.get_meta_graph_def(saved_model_dir, tag_set).signature_def


def _get_inputs_tensor_info_from_meta_graph_def(meta_graph_def: Any, signature_def_key: str) -> Any:
    """TensorInfos of the inputs of a signature, by name."""
    return meta_graph_def.signature_def[signature_def_key].inputs


def _get_outputs_tensor_info_from_meta_graph_def(meta_graph_def: Any, signature_def_key: str) -> Any:
    """TensorInfos of the outputs of a signature, by name."""
    return meta_graph_def.signature_def[signature_def_key].outputs


def _print_tensor_info(tensor_info: Any, indent: int = 0) -> None:
    """Prints type, shape and name of a tensor."""
    indent_str = "  " * indent

    def in_print(s: str) -> None:
        print(indent_str + s)

    in_print("    dtype: " + {value: key for (key, value) in types_pb2.DataType.items()}[tensor_info.dtype])
    if tensor_info.tensor_shape.unknown_rank:
        shape = "unknown_rank"
    else:
        shape = "(" + ", ".join(str(dim.size) for dim in tensor_info.tensor_shape.dim) + ")"
    in_print("    shape: " + shape)
    in_print("    name: " + tensor_info.name)


def _show_inputs_outputs(saved_model_dir: str, tag_set: str, signature_def_key: str, indent: int = 0) -> None:
    meta_graph_def = saved_model_utils.get_meta_graph_def(saved_model_dir, tag_set)
    inputs = _get_inputs_tensor_info_from_meta_graph_def(meta_graph_def, signature_def_key)
    outputs = _get_outputs_tensor_info_from_meta_graph_def(meta_graph_def, signature_def_key)
    indent_str = "  " * indent
    print(indent_str + "The given SavedModel SignatureDef contains the following input(s):")
    for name, info in sorted(inputs.items()):
        print(indent_str + "  inputs['%s'] tensor_info:" % name)
        _print_tensor_info(info, indent + 1)
    print(indent_str + "The given SavedModel SignatureDef contains the following output(s):")
    for name, info in sorted(outputs.items()):
        print(indent_str + "  outputs['%s'] tensor_info:" % name)
        _print_tensor_info(info, indent + 1)
    print(indent_str + "Method name is: %s" % meta_graph_def.signature_def[signature_def_key].method_name)


def _show_all(saved_model_dir: str) -> None:
    for tag_set in sorted(saved_model_utils.get_saved_model_tag_sets(saved_model_dir)):
        print("\nMetaGraphDef with tag-set: '%s' contains the following SignatureDefs:" % ", ".join(tag_set))
        tags = ",".join(tag_set)
        for key in sorted(get_signature_def_map(saved_model_dir, tags)):
            print("\nsignature_def['" + key + "']:")
            _show_inputs_outputs(saved_model_dir, tags, key, indent=1)


def get_meta_graph_def(saved_model_dir: str, tag_set: str) -> Any:
    """The MetaGraphDef with exactly these tags."""
    return saved_model_utils.get_meta_graph_def(saved_model_dir, tag_set)


def scan_meta_graph_def(meta_graph_def: Any) -> None:
    """Prints which operations of a MetaGraphDef read or write files."""
    found = {node.op for node in meta_graph_def.graph_def.node} & _OP_BLACKLIST
    if found:
        print(
            "MetaGraph with tag set %s contains the following blacklisted ops:"
            % meta_graph_def.meta_info_def.tags,
            found,
        )
    else:
        print(
            "MetaGraph with tag set %s does not contain blacklisted ops." % meta_graph_def.meta_info_def.tags
        )


def run_saved_model_with_feed_dict(
    saved_model_dir: str, tag_set: str, signature_def_key: str, input_tensor_key_feed_dict: dict[str, Any], outdir: Any,
    overwrite_flag: bool, worker: Any = None, init_tpu: bool = False, tf_debug: bool = False,
) -> None:  # fmt: skip
    """Runs a signature and prints its outputs.

    Args:
      saved_model_dir, tag_set, signature_def_key: the model, its graph and signature.
      input_tensor_key_feed_dict: values by names of inputs.
      outdir: a folder for files "name.npy" of the outputs, or None.
      overwrite_flag: whether files may be overwritten.
      worker: target of the session.
      init_tpu, tf_debug: not supported.

    Raises:
      ValueError: an input is unknown or missing.
      RuntimeError: an output file exists.
    """
    del init_tpu, tf_debug
    meta_graph_def = saved_model_utils.get_meta_graph_def(saved_model_dir, tag_set)
    infos = _get_inputs_tensor_info_from_meta_graph_def(meta_graph_def, signature_def_key)
    for name in input_tensor_key_feed_dict:
        if name not in infos:
            raise ValueError(
                '"%s" is not a valid input key. Please choose from %s, or use --show option.'
                % (name, ", ".join('"' + key + '"' for key in infos))
            )
    missing = [key for key in infos if key not in input_tensor_key_feed_dict]
    if missing:
        raise ValueError('"%s" is an input of the signature and has no value' % '", "'.join(missing))
    feeds = {infos[key].name: value for key, value in input_tensor_key_feed_dict.items()}
    outputs = _get_outputs_tensor_info_from_meta_graph_def(meta_graph_def, signature_def_key)
    keys = sorted(outputs)
    with session.Session(worker, graph=ops_lib.Graph()) as sess:
        loader.load(sess, tag_set.split(","), saved_model_dir)
        values = sess.run([outputs[key].name for key in keys], feed_dict=feeds)
    for key, value in zip(keys, values):
        print("Result for output key %s:\n%s" % (key, value))
        if outdir:
            _write_output(outdir, key, value, overwrite_flag)


def _write_output(outdir: str, key: str, value: Any, overwrite: bool) -> None:
    if not os.path.isdir(outdir):
        os.makedirs(outdir)
    path = os.path.join(outdir, key + ".npy")
    if not overwrite and os.path.exists(path):
        raise RuntimeError(
            'Output file %s already exists. Add "--overwrite" to overwrite the existing output files.' % path
        )
    np.save(path, value)
    print("Output %s is saved to %s" % (key, path))


def preprocess_inputs_arg_string(inputs_str: str) -> dict[str, tuple[str, Any]]:
    """{name: (file, variable or None)} of "x=file.npz[var];y=file.npy"."""
    result = {}
    for text in filter(None, inputs_str.split(";")):
        match = re.match(r"([^=]+)=([^\[\]]+)\[([^\[\]]+)\]$", text)
        if match:
            result[match.group(1)] = match.group(2), match.group(3)
            continue
        match = re.match(r"([^=]+)=([^\[\]]+)$", text)
        if not match:
            raise RuntimeError(
                '--inputs "%s" format is incorrect. Please follow"<input_key>=<file_name>", or"<input_key>=<file_name>[<variable_name>]"'
                % text
            )
        result[match.group(1)] = match.group(2), None
    return result


def preprocess_input_exprs_arg_string(input_exprs_str: str) -> dict[str, Any]:
    """{name: array} of "x=[[1, 2]];y=np.ones((2, 3))"; expressions are literals and calls of np."""
    result = {}
    for text in filter(None, input_exprs_str.split(";")):
        if "=" not in text:
            raise RuntimeError(
                '--input_exprs "%s" format is incorrect. Please follow"<input_key>=<python expression>"'
                % text
            )
        key, expression = text.split("=", 1)
        result[key] = eval(expression, {"np": np, "numpy": np, "__builtins__": {}})  # noqa: S307
    return result


def preprocess_input_examples_arg_string(input_examples_str: str) -> dict[str, Any]:
    """{name: list of serialised Examples} of 'x=[{"a": [1, 2], "b": [b"text"]}]'."""
    result = {}
    for text in filter(None, input_examples_str.split(";")):
        if "=" not in text:
            raise RuntimeError(
                '--input_examples "%s" format is incorrect. Please follow"<input_key>=<list of dicts>"' % text
            )
        key, value = text.split("=", 1)
        examples = ast.literal_eval(value)
        if not isinstance(examples, list):
            raise ValueError(
                'tf.Example input must be a list of dictionaries, but "%s" is %s' % (value, type(examples))
            )
        result[key] = [_create_example_string(example) for example in examples]
    return result


def _create_example_string(example_dict: Any) -> bytes:
    example = example_pb2.Example()
    for name, values in example_dict.items():
        feature = example.features.feature[name]
        if not isinstance(values, list):
            raise ValueError(
                'feature value must be a list, but %s: "%s" is %s' % (name, values, type(values))
            )
        if isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif isinstance(values[0], (str, bytes)):
            feature.bytes_list.value.extend([v.encode() if isinstance(v, str) else v for v in values])
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            raise ValueError(
                "Type %s for value %s is not supported for tf.train.Feature." % (type(values[0]), values[0])
            )
    return example.SerializeToString()


def load_inputs_from_input_arg_string(
    inputs_str: str, input_exprs_str: str, input_examples_str: str
) -> dict[str, Any]:
    """Values by names of inputs, from files, expressions and Examples."""
    values: dict[str, Any] = {}
    for key, (path, variable) in preprocess_inputs_arg_string(inputs_str).items():
        data = np.load(file_io.FileIO(path, mode="rb"), allow_pickle=True)
        if isinstance(data, np.ndarray):
            if variable:
                print('Input file %s contains a single ndarray. Name key "%s" ignored.' % (path, variable))
            values[key] = data
        elif hasattr(data, "files"):
            if variable is None and len(data.files) != 1:
                raise RuntimeError(
                    "Input file %s contains more than one ndarrays. Please specify the name of ndarray to use."
                    % path
                )
            values[key] = data[variable or data.files[0]]
        else:
            values[key] = data
    for source in (
        preprocess_input_exprs_arg_string(input_exprs_str),
        preprocess_input_examples_arg_string(input_examples_str),
    ):
        for key, value in source.items():
            if key in values:
                print("input_key %s has been specified more than once. The last value counts." % key)
            values[key] = value
    return values


def show(args: Any) -> None:
    """The command show."""
    if args.all:
        _show_all(args.dir)
    elif args.tag_set is None:
        _show_tag_sets(args.dir)
    elif args.signature_def is None:
        _show_signature_def_map_keys(args.dir, args.tag_set)
    else:
        _show_inputs_outputs(args.dir, args.tag_set, args.signature_def)


def run(args: Any) -> None:
    """The command run; AttributeError without inputs."""
    if not args.inputs and not args.input_exprs and not args.input_examples:
        raise AttributeError("At least one of --inputs, --input_exprs or --input_examples must be required")
    feeds = load_inputs_from_input_arg_string(args.inputs, args.input_exprs, args.input_examples)
    run_saved_model_with_feed_dict(
        args.dir, args.tag_set, args.signature_def, feeds, args.outdir, args.overwrite, worker=args.worker
    )


def scan(args: Any) -> None:
    """The command scan."""
    if args.tag_set:
        scan_meta_graph_def(saved_model_utils.get_meta_graph_def(args.dir, args.tag_set))
        return
    for meta_graph_def in saved_model_utils.read_saved_model(args.dir).meta_graphs:
        scan_meta_graph_def(meta_graph_def)


def create_parser() -> Any:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description="saved_model_cli: Command-line interface for SavedModel")
    parser.add_argument("-v", "--version", action="version", version="0.1.0")
    subparsers = parser.add_subparsers(title="commands", description="valid commands", help="additional help")
    show_parser = subparsers.add_parser("show", help="what a SavedModel holds")
    show_parser.add_argument("--dir", type=str, required=True, help="folder of the SavedModel")
    show_parser.add_argument("--all", action="store_true", help="everything")
    show_parser.add_argument(
        "--tag_set", type=str, default=None, help="tags of the MetaGraphDef, with commas between"
    )
    show_parser.add_argument("--signature_def", type=str, default=None, help="key of the signature")
    show_parser.set_defaults(func=show)
    run_parser = subparsers.add_parser("run", help="run a signature")
    run_parser.add_argument("--dir", type=str, required=True, help="folder of the SavedModel")
    run_parser.add_argument(
        "--tag_set", type=str, required=True, help="tags of the MetaGraphDef, with commas between"
    )
    run_parser.add_argument("--signature_def", type=str, required=True, help="key of the signature")
    run_parser.add_argument(
        "--inputs", type=str, default="", help="<name>=<file>[<variable>], with ';' between"
    )
    run_parser.add_argument(
        "--input_exprs", type=str, default="", help="<name>=<expression>, with ';' between"
    )
    run_parser.add_argument(
        "--input_examples", type=str, default="", help="<name>=<list of dicts>, with ';' between"
    )
    run_parser.add_argument("--outdir", type=str, default=None, help="folder for the outputs")
    run_parser.add_argument("--overwrite", action="store_true", help="overwrite files")
    run_parser.add_argument("--tf_debug", action="store_true", help="not implemented")
    run_parser.add_argument("--worker", type=str, default=None, help="target of the session")
    run_parser.add_argument("--init_tpu", action="store_true", default=None, help="not implemented")
    run_parser.set_defaults(func=run)
    scan_parser = subparsers.add_parser("scan", help="operations that read or write files")
    scan_parser.add_argument("--dir", type=str, required=True, help="folder of the SavedModel")
    scan_parser.add_argument("--tag_set", type=str, help="tags of the MetaGraphDef, with commas between")
    scan_parser.set_defaults(func=scan)
    return parser


def main() -> None:
    """The program."""
    args = create_parser().parse_args()
    if not hasattr(args, "func"):
        sys.exit("Too few arguments: a command is missing")
    args.func(args)


if __name__ == "__main__":
    main()
