# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loading of SavedModels into sessions."""

from __future__ import annotations

import os
from typing import Any

from millrace.python.framework import ops
from millrace.python.lib.io import file_io
from millrace.python.ops import variables
from millrace.python.platform import tf_logging
from millrace.python.saved_model import constants
from millrace.python.saved_model import signature_def_utils
from millrace.python.saved_model import utils_impl as saved_model_utils
from millrace.python.training import saver as tf_saver
from millrace.python.util import compat


def parse_saved_model(export_dir: Any) -> Any:
    """The SavedModel message of a folder. Raises IOError if there is none or it cannot be parsed."""
    from google.protobuf import message
    from google.protobuf import text_format
    from millrace.core.protobuf import saved_model_pb2

    path_to_pbtxt = os.path.join(
        compat.as_bytes(export_dir), compat.as_bytes(constants.SAVED_MODEL_FILENAME_PBTXT)
    )
    path_to_pb = os.path.join(compat.as_bytes(export_dir), compat.as_bytes(constants.SAVED_MODEL_FILENAME_PB))
    saved_model = saved_model_pb2.SavedModel()
    if file_io.file_exists(path_to_pb):
        try:
            saved_model.ParseFromString(file_io.FileIO(path_to_pb, "rb").read())
            return saved_model
        except message.DecodeError as e:
            raise IOError("Cannot parse file %r: %s." % (path_to_pb, str(e)))
    if file_io.file_exists(path_to_pbtxt):
        try:
            text_format.Merge(file_io.FileIO(path_to_pbtxt, "rb").read(), saved_model)
            return saved_model
        except text_format.ParseError as e:
            raise IOError("Cannot parse file %r: %s." % (path_to_pbtxt, str(e)))
    raise IOError(
        "SavedModel file does not exist at: %s/{%s|%s}"
        % (export_dir, constants.SAVED_MODEL_FILENAME_PBTXT, constants.SAVED_MODEL_FILENAME_PB)
    )


_parse_saved_model = parse_saved_model


def get_asset_tensors(
    export_dir: Any, meta_graph_def_to_load: Any, import_scope: str | None = None
) -> dict[str, Any]:
    """Paths of assets by names of the tensors that are to hold them."""
    from millrace.core.protobuf import meta_graph_pb2

    collection_def = meta_graph_def_to_load.collection_def
    asset_protos = []
    if meta_graph_def_to_load.asset_file_def:
        asset_protos = meta_graph_def_to_load.asset_file_def
    elif constants.ASSETS_KEY in collection_def:
        for packed in collection_def[constants.ASSETS_KEY].any_list.value:
            asset_proto = meta_graph_pb2.AssetFileDef()
            packed.Unpack(asset_proto)
            asset_protos.append(asset_proto)
    assets_directory = os.path.join(compat.as_bytes(export_dir), compat.as_bytes(constants.ASSETS_DIRECTORY))
    return {
        ops.prepend_name_scope(asset.tensor_info.name, import_scope): os.path.join(
            assets_directory, compat.as_bytes(asset.filename)
        )
        for asset in asset_protos
    }


_get_asset_tensors = get_asset_tensors


def _get_main_op_tensor(meta_graph_def_to_load: Any, init_op_key: str = constants.MAIN_OP_KEY) -> Any:
    """The op of a collection that is run after loading, or None. Raises RuntimeError for more than one."""
    collection_def = meta_graph_def_to_load.collection_def
    if init_op_key not in collection_def:
        return None
    init_op_list = collection_def[init_op_key].node_list.value
    if len(init_op_list) != 1:
        raise RuntimeError("Expected exactly one SavedModel init op. Found: {}".format(init_op_list))
    return ops.get_collection(init_op_key)[0]


def get_init_op(meta_graph_def: Any, import_scope: str | None = None) -> Any:
    """The op to run after loading, in the form of version 1 or 2, or None."""
    op_signature_key = constants.INIT_OP_SIGNATURE_KEY
    if op_signature_key in meta_graph_def.signature_def:
        return signature_def_utils.load_op_from_signature_def(
            meta_graph_def.signature_def[op_signature_key], op_signature_key, import_scope
        )
    main = _get_main_op_tensor(meta_graph_def, constants.MAIN_OP_KEY)
    return main if main is not None else _get_main_op_tensor(meta_graph_def, constants.LEGACY_INIT_OP_KEY)


def get_train_op(meta_graph_def: Any, import_scope: str | None = None) -> Any:
    """The training op that the model names, or None."""
    op_signature_key = constants.TRAIN_OP_SIGNATURE_KEY
    if op_signature_key in meta_graph_def.signature_def:
        return signature_def_utils.load_op_from_signature_def(
            meta_graph_def.signature_def[op_signature_key], op_signature_key, import_scope
        )
    train = ops.get_collection(constants.TRAIN_OP_KEY)
    return train[0] if train else None


def maybe_saved_model_directory(export_dir: Any) -> bool:
    """Whether a folder may be a SavedModel: it has the file of one."""
    return file_io.file_exists(
        os.path.join(export_dir, constants.SAVED_MODEL_FILENAME_PBTXT)
    ) or file_io.file_exists(os.path.join(export_dir, constants.SAVED_MODEL_FILENAME_PB))


def contains_saved_model(export_dir: Any) -> bool:
    return maybe_saved_model_directory(export_dir)


def load(sess: Any, tags: Any, export_dir: Any, import_scope: str | None = None, **saver_kwargs: Any) -> Any:
    """Loads a model into a session: its graph, variables and assets; then runs its initialisation op.

    Args:
      sess: session whose graph gets the model's.
      tags: all tags of one graph of the model.
      export_dir: folder of the model.
      import_scope: prefix of the names.
      **saver_kwargs: further arguments of `import_meta_graph`.

    Returns:
      The MetaGraphDef.

    Raises:
      RuntimeError: if there is no graph with the tags.
    """
    return SavedModelLoader(export_dir).load(sess, tags, import_scope, **saver_kwargs)


class SavedModelLoader:
    """Loads graph, variables and tables of a SavedModel, together or separately."""

    def __init__(self, export_dir: Any) -> None:
        """Reads the model's description.

        Args:
          export_dir: folder of the model.

        Raises:
          IOError: there is no model, or it cannot be parsed.
        """
        self._export_dir = export_dir
        self._variables_path = saved_model_utils.get_variables_path(export_dir)
        self._saved_model = parse_saved_model(export_dir)

    @property
    def export_dir(self) -> Any:
        return self._export_dir

    @property
    def variables_path(self) -> str:
        """Prefix of the checkpoint."""
        return self._variables_path

    @property
    def saved_model(self) -> Any:
        """The message."""
        return self._saved_model

    def get_meta_graph_def_from_tags(self, tags: Any) -> Any:
        """The graph with exactly these tags. Raises RuntimeError if there is none."""
        wanted = {tags} if isinstance(tags, str) else set(tags)
        available = []
        for meta_graph_def in self._saved_model.meta_graphs:
            graph_tags = set(meta_graph_def.meta_info_def.tags)
            available.append(graph_tags)
            if graph_tags == wanted:
                return meta_graph_def
        raise RuntimeError(
            "MetaGraphDef associated with tags {} could not be found in SavedModel. To inspect available"
            " tag-sets in the SavedModel, please use the SavedModel CLI: `saved_model_cli`"
            "\navailable_tags: {}".format(str(tags).strip("[]"), available)
        )

    def load_graph(self, graph: Any, tags: Any, import_scope: str | None = None, **saver_kwargs: Any) -> Any:
        """Adds the model's graph to `graph`; returns the Saver and the requested return elements."""
        meta_graph_def = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            return tf_saver._import_meta_graph_with_return_elements(
                meta_graph_def, import_scope=import_scope, **saver_kwargs
            )

    def restore_variables(self, sess: Any, saver: Any, import_scope: str | None = None) -> None:
        """Restores the variables, if there are any."""
        with sess.graph.as_default():
            if saver is None and not variables._all_saveable_objects(scope=import_scope):
                tf_logging.info("The specified SavedModel has no variables; no checkpoints were restored.")
            elif isinstance(saver, tf_saver.Saver):
                saver.restore(sess, self._variables_path)
            else:
                raise ValueError(
                    "No tf.train.Saver object was passed to the function `SavedModelLoader.restore_variables`. Since there are variables in the graph, a saver is required."
                )

    def run_init_ops(self, sess: Any, tags: Any, import_scope: str | None = None) -> None:
        """Runs the operation that initialises tables and similar resources, with the paths of the assets fed."""
        meta_graph_def = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            asset_tensors_dictionary = get_asset_tensors(
                self._export_dir, meta_graph_def, import_scope=import_scope
            )
            init_op = get_init_op(meta_graph_def, import_scope)
            if init_op is not None:
                sess.run(fetches=[init_op], feed_dict=asset_tensors_dictionary)

    def load(self, sess: Any, tags: Any, import_scope: str | None = None, **saver_kwargs: Any) -> Any:
        """Loads graph and variables and runs the initialisation op; returns the MetaGraphDef."""
        saver, _ = self.load_graph(sess.graph, tags, import_scope, **saver_kwargs)
        self.restore_variables(sess, saver, import_scope)
        self.run_init_ops(sess, tags, import_scope)
        meta_graph_def = self.get_meta_graph_def_from_tags(tags)
        # Makes assets of the loaded graph known by their paths.
        return meta_graph_def
