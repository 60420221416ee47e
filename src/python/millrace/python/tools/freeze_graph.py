# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a graph whose variables are constants with the values of a checkpoint.

    python -m millrace.python.tools.freeze_graph --input_graph=graph.pbtxt --input_checkpoint=model-8361242
        --output_graph=/tmp/frozen.pb --output_node_names=softmax
"""
from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from millrace.core.framework import graph_pb2
from millrace.core.protobuf import meta_graph_pb2, saver_pb2
from millrace.python.client import session
from millrace.python.framework import graph_util, importer, ops
from millrace.python.platform import app, gfile
from millrace.python.saved_model import loader, tag_constants
from millrace.python.training import checkpoint_management, py_checkpoint_reader
from millrace.python.training import saver as saver_lib


def _has_no_variables(sess: Any) -> bool:
    """Whether a session's graph has no variables."""
    return not any(
        op.type.startswith("Variable") or op.type.endswith("VariableOp") for op in sess.graph.get_operations()
    )


def _list_of(names: Any) -> Any:
    """Comma-separated names as a list; None for an empty text."""
    return names.replace(" ", "").split(",") if names else None


def _saver_of(sess: Any, input_checkpoint: str, input_meta_graph_def: Any, checkpoint_version: int) -> Any:
    """A Saver of the variables that both the graph and the checkpoint have; None when the graph has none."""
    reader = py_checkpoint_reader.NewCheckpointReader(input_checkpoint)
    var_list = {}
    for key in reader.get_variable_to_shape_map():
        try:
            tensor = sess.graph.get_tensor_by_name(key + ":0")
        except KeyError:
            continue  # variables of the checkpoint that the graph lacks, such as an optimizer's
        var_list[key] = tensor
    try:
        return saver_lib.Saver(var_list=var_list, write_version=checkpoint_version)
    except TypeError as e:
        # Variables that are not references cannot be restored without the graph's own saver.
        if _has_no_variables(sess):
            raise ValueError(
                "No variables were found in this model. It is likely the model was frozen previously. You cannot freeze a graph twice."
            ) from e
        if input_meta_graph_def is None and "resource" not in str(e):
            raise
        raise TypeError(
            "The variables of this graph need a saver: pass the meta graph or the saver of the program"
        ) from e


def _restore(
    sess: Any, input_checkpoint: Any, input_saver_def: Any, input_meta_graph_def: Any, input_saved_model_dir: Any,
    saved_model_tags: Any, restore_op_name: str, filename_tensor_name: str, initializer_nodes: Any, checkpoint_version: int,
) -> None:  # fmt: skip
    if input_saver_def:
        saver_lib.Saver(saver_def=input_saver_def, write_version=checkpoint_version).restore(
            sess, input_checkpoint
        )
    elif input_meta_graph_def:
        saver_lib.import_meta_graph(input_meta_graph_def, clear_devices=True).restore(sess, input_checkpoint)
    elif input_saved_model_dir:
        loader.load(sess, saved_model_tags if saved_model_tags is not None else [], input_saved_model_dir)
    elif _has_operation(sess.graph, restore_op_name) and _handle_variables(sess.graph):
        sess.run(restore_op_name, {filename_tensor_name: input_checkpoint})
    else:
        _saver_of(sess, input_checkpoint, input_meta_graph_def, checkpoint_version).restore(
            sess, input_checkpoint
        )
    if initializer_nodes and not input_meta_graph_def and not input_saved_model_dir:
        sess.run(_list_of(initializer_nodes))


def _has_operation(graph: Any, name: str) -> bool:
    return bool(name) and name in graph._nodes_by_name


def _handle_variables(graph: Any) -> bool:
    return any(op.type == "VarHandleOp" for op in graph.get_operations())


def freeze_graph_with_def_protos(
    input_graph_def: Any, input_saver_def: Any, input_checkpoint: Any, output_node_names: str, restore_op_name: str,
    filename_tensor_name: str, output_graph: str, clear_devices: bool, initializer_nodes: Any,
    variable_names_whitelist: Any = "", variable_names_blacklist: Any = "", input_meta_graph_def: Any = None,
    input_saved_model_dir: Any = None, saved_model_tags: Any = None, checkpoint_version: int = saver_pb2.SaverDef.V2,
) -> Any:  # fmt: skip
    """Makes variables of a GraphDef constants.

    Args:
      input_graph_def: the GraphDef.
      input_saver_def: a SaverDef of its saver, or None.
      input_checkpoint: prefix of the checkpoint.
      output_node_names: names of nodes that must stay, with commas between them.
      restore_op_name, filename_tensor_name: ops of the graph's own saver; used if there is no other one.
      output_graph: the file for the result; none is written when empty.
      clear_devices: whether to remove the devices of nodes.
      initializer_nodes: operations to be run after variables are restored.
      variable_names_whitelist: the variables that become constants; all when empty.
      variable_names_blacklist: variables that stay.
      input_meta_graph_def: a MetaGraphDef instead of the GraphDef.
      input_saved_model_dir, saved_model_tags: a SavedModel instead of it.
      checkpoint_version: of the saver.

    Returns:
      The GraphDef; -1 where an argument is missing.
    """
    if not input_saved_model_dir and not checkpoint_management.checkpoint_exists(input_checkpoint):
        print("Input checkpoint '" + input_checkpoint + "' doesn't exist!")
        return -1
    if not output_node_names:
        print("You need to supply the name of a node to --output_node_names.")
        return -1
    # Nodes may request devices that this process lacks.
    if clear_devices:
        for node in (input_meta_graph_def.graph_def if input_meta_graph_def else input_graph_def).node:
            node.device = ""
    with ops.Graph().as_default(), session.Session() as sess:
        if not input_meta_graph_def and not input_saved_model_dir:
            importer.import_graph_def(input_graph_def, name="")
        _restore(
            sess, input_checkpoint, input_saver_def, input_meta_graph_def, input_saved_model_dir, saved_model_tags,
            restore_op_name, filename_tensor_name, initializer_nodes, checkpoint_version,
        )  # fmt: skip
        if input_meta_graph_def:
            graph_def = input_meta_graph_def.graph_def
        else:
            graph_def = sess.graph.as_graph_def() if input_saved_model_dir else input_graph_def
        frozen = graph_util.convert_variables_to_constants(
            sess, graph_def, _list_of(output_node_names), variable_names_whitelist=_list_of(variable_names_whitelist),
            variable_names_blacklist=_list_of(variable_names_blacklist),
        )  # fmt: skip
    if output_graph:
        with gfile.GFile(output_graph, "wb") as f:
            f.write(frozen.SerializeToString())
    return frozen


def _read(path: str, message: Any, binary: bool, what: str) -> Any:
    """A message of a file, as text or binary; -1 when there is no such file."""
    from google.protobuf import text_format

    if not gfile.Exists(path):
        print("Input %s file '%s' does not exist!" % (what, path))
        return -1
    with gfile.GFile(path, "rb" if binary else "r") as f:
        if binary:
            message.ParseFromString(f.read())
        else:
            text_format.Merge(f.read(), message)
    return message


def freeze_graph(
    input_graph: str, input_saver: str, input_binary: bool, input_checkpoint: Any, output_node_names: str,
    restore_op_name: str, filename_tensor_name: str, output_graph: str, clear_devices: bool, initializer_nodes: Any,
    variable_names_whitelist: Any = "", variable_names_blacklist: Any = "", input_meta_graph: Any = None,
    input_saved_model_dir: Any = None, saved_model_tags: Any = tag_constants.SERVING,
    checkpoint_version: int = saver_pb2.SaverDef.V2,
) -> Any:  # fmt: skip
    """`freeze_graph_with_def_protos` with files: of a GraphDef, a SaverDef and a MetaGraphDef.

    Returns:
      The GraphDef; -1 where a file is missing.
    """
    from millrace.python.tools import saved_model_utils

    input_graph_def = None
    if input_saved_model_dir:
        input_graph_def = saved_model_utils.get_meta_graph_def(
            input_saved_model_dir, saved_model_tags
        ).graph_def
    elif input_graph:
        input_graph_def = _read(input_graph, graph_pb2.GraphDef(), input_binary, "graph")
    input_meta_graph_def = None
    if input_meta_graph:
        input_meta_graph_def = _read(
            input_meta_graph, meta_graph_pb2.MetaGraphDef(), input_binary, "meta graph"
        )
    input_saver_def = None
    if input_saver:
        input_saver_def = _read(input_saver, saver_pb2.SaverDef(), input_binary, "saver")
    if -1 in [m for m in (input_graph_def, input_meta_graph_def, input_saver_def) if isinstance(m, int)]:
        return -1
    tags = None if saved_model_tags is None else re.split(r",\s*", saved_model_tags)
    return freeze_graph_with_def_protos(
        input_graph_def, input_saver_def, input_checkpoint, output_node_names, restore_op_name, filename_tensor_name,
        output_graph, clear_devices, initializer_nodes, variable_names_whitelist, variable_names_blacklist,
        input_meta_graph_def, input_saved_model_dir, tags, checkpoint_version=checkpoint_version,
    )  # fmt: skip


def main(unused_args: Any, flags: Any) -> None:
    """Freezes the graph set by the flags."""
    del unused_args
    versions = {1: saver_pb2.SaverDef.V1, 2: saver_pb2.SaverDef.V2}
    if flags.checkpoint_version not in versions:
        raise ValueError("Invalid checkpoint version (must be '1' or '2'): %d" % flags.checkpoint_version)
    made = freeze_graph(
        flags.input_graph, flags.input_saver, flags.input_binary, flags.input_checkpoint, flags.output_node_names,
        flags.restore_op_name, flags.filename_tensor_name, flags.output_graph, flags.clear_devices,
        flags.initializer_nodes, flags.variable_names_whitelist, flags.variable_names_blacklist, flags.input_meta_graph,
        flags.input_saved_model_dir, flags.saved_model_tags, versions[flags.checkpoint_version],
    )  # fmt: skip
    if made == -1:
        sys.exit(1)


def run_main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    yes_or_no: dict[str, Any] = {"nargs": "?", "const": True, "type": lambda text: text.lower() == "true"}
    parser.add_argument("--input_graph", default="", help="file of a GraphDef")
    parser.add_argument("--input_saver", default="", help="file of a SaverDef")
    parser.add_argument("--input_checkpoint", default="", help="prefix of the checkpoint")
    parser.add_argument("--checkpoint_version", type=int, default=2, help="1 or 2")
    parser.add_argument("--output_graph", default="", help="file to write")
    parser.add_argument("--input_binary", default=False, help="whether input files are binary", **yes_or_no)
    parser.add_argument("--output_node_names", default="", help="nodes that stay, with commas between")
    parser.add_argument(
        "--restore_op_name", default="save/restore_all", help="operation that restores variables"
    )
    parser.add_argument(
        "--filename_tensor_name", default="save/Const:0", help="tensor with the checkpoint's name"
    )
    parser.add_argument("--clear_devices", default=True, help="whether devices are forgotten", **yes_or_no)
    parser.add_argument("--initializer_nodes", default="", help="operations to run before freezing")
    parser.add_argument("--variable_names_whitelist", default="", help="variables that become constants")
    parser.add_argument("--variable_names_blacklist", default="", help="variables that stay variables")
    parser.add_argument("--input_meta_graph", default="", help="file of a MetaGraphDef")
    parser.add_argument("--input_saved_model_dir", default="", help="folder of a SavedModel")
    parser.add_argument(
        "--saved_model_tags", default="serve", help="tags of a MetaGraphDef in it, with commas between"
    )
    flags, unparsed = parser.parse_known_args()
    app.run(main=lambda unused_args: main(unused_args, flags), argv=[sys.argv[0]] + unparsed)


if __name__ == "__main__":
    run_main()
