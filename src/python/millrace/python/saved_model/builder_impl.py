# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SavedModelBuilder: writes graphs with tags and signatures, their variables once, and their assets."""

from __future__ import annotations

import os
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.lib.io import file_io
from millrace.python.ops import variables
from millrace.python.platform import tf_logging
from millrace.python.saved_model import constants
from millrace.python.saved_model import utils_impl as saved_model_utils
from millrace.python.training import saver as tf_saver
from millrace.python.util import compat


class _SavedModelBuilder:
    """Common part: `add_meta_graph_and_variables` first, `add_meta_graph` for further graphs, then `save`."""

    def __init__(self, export_dir: Any) -> None:
        """Makes the folder.

        Args:
          export_dir: the folder, which must not exist or be empty.

        Raises:
          AssertionError: if it exists and is not empty.
        """
        from millrace.core.protobuf import saved_model_pb2

        self._saved_model = saved_model_pb2.SavedModel()
        self._saved_model.saved_model_schema_version = constants.SAVED_MODEL_SCHEMA_VERSION
        self._export_dir = export_dir
        if file_io.file_exists(export_dir):
            if file_io.list_directory(export_dir):
                raise AssertionError(
                    "Export directory already exists, and isn't empty. Please choose a different export directory, or delete all the contents of the specified directory: %s"
                    % export_dir
                )
        else:
            file_io.recursive_create_dir(self._export_dir)
        self._has_saved_variables = False

    # Assets.

    def _save_and_write_assets(self, meta_graph_def: Any, assets_list: Any = None) -> None:
        """Copies the files of asset tensors, and names the files in the graph's description."""
        write_fn = _asset_file_def_writer(meta_graph_def)
        asset_filename_map = _maybe_save_assets(write_fn, assets_list)
        if not asset_filename_map:
            tf_logging.info("No assets to write.")
            return
        copy_assets_to_destination_dir(asset_filename_map, self._export_dir)

    # Graphs.

    def _tag_and_add_meta_graph(self, meta_graph_def: Any, tags: Any, signature_def_map: Any) -> None:
        for tag in tags:
            meta_graph_def.meta_info_def.tags.append(tag)
        if signature_def_map is not None:
            for key in signature_def_map:
                meta_graph_def.signature_def[key].CopyFrom(signature_def_map[key])
        self._saved_model.meta_graphs.add().CopyFrom(meta_graph_def)

    def _validate_tensor_info(self, tensor_info: Any) -> None:
        if tensor_info is None:
            raise AssertionError(
                "All TensorInfo protos used in the SignatureDefs must have the name and dtype fields set."
            )
        if tensor_info.WhichOneof("encoding") is None:
            raise AssertionError(
                "All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' fields (e.g., name or coo_sparse) set: %s"
                % tensor_info
            )
        if tensor_info.dtype == 0:
            raise AssertionError(
                "All TensorInfo protos used in the SignatureDefs must have the dtype field set: %s"
                % tensor_info
            )

    def _validate_signature_def_map(self, signature_def_map: Any) -> None:
        for signature_def_key in signature_def_map:
            signature_def = signature_def_map[signature_def_key]
            for infos in (signature_def.inputs, signature_def.outputs):
                for key in infos:
                    self._validate_tensor_info(infos[key])
        for reserved in (constants.INIT_OP_SIGNATURE_KEY, constants.TRAIN_OP_SIGNATURE_KEY):
            if reserved in signature_def_map:
                raise KeyError(
                    'SignatureDef map key "{}" is reserved for initialization. Please use a different key.'.format(
                        reserved
                    )
                )

    def _maybe_create_saver(self, saver: Any = None) -> Any:
        """A sharded saver of all variables, which writes format 2 and allows graphs without variables."""
        if not saver:
            saver = tf_saver.Saver(
                variables._all_saveable_objects(), sharded=True, write_version=2, allow_empty=True
            )
        return saver

    def _add_collections(self, assets_collection: Any, main_op: Any, train_op: Any) -> None:
        raise NotImplementedError

    def _add_graph(
        self,
        tags: Any,
        signature_def_map: Any,
        clear_devices: bool,
        saver: Any,
        strip_default_attrs: bool,
        assets: Any,
    ) -> None:
        # The collection then has only the saver of this model, which the loader uses.
        meta_graph_def = saver.export_meta_graph(
            clear_devices=clear_devices, strip_default_attrs=strip_default_attrs
        )
        self._save_and_write_assets(meta_graph_def, assets)
        self._tag_and_add_meta_graph(meta_graph_def, tags, signature_def_map)

    def _save_variables(self, sess: Any, saver: Any) -> None:
        saved_model_utils.get_or_create_variables_dir(self._export_dir)
        variables_path = saved_model_utils.get_variables_path(self._export_dir)
        saver.save(sess, variables_path, write_meta_graph=False, write_state=False)

    def save(self, as_text: bool = False) -> Any:
        """Writes the file with the graphs; returns its path as bytes."""
        from google.protobuf import text_format

        if not file_io.file_exists(self._export_dir):
            file_io.recursive_create_dir(self._export_dir)
        if as_text:
            path = os.path.join(
                compat.as_bytes(self._export_dir), compat.as_bytes(constants.SAVED_MODEL_FILENAME_PBTXT)
            )
            file_io.write_string_to_file(path, text_format.MessageToString(self._saved_model))
        else:
            path = os.path.join(
                compat.as_bytes(self._export_dir), compat.as_bytes(constants.SAVED_MODEL_FILENAME_PB)
            )
            file_io.write_string_to_file(path, self._saved_model.SerializeToString(deterministic=True))
        tf_logging.info("SavedModel written to: %s", compat.as_text(path))
        return path


class SavedModelBuilder(_SavedModelBuilder):
    """Writes SavedModels in the format of version 1, with assets and initialising ops in collections.

    builder = tf.saved_model.builder.SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(sess, [tf.saved_model.tag_constants.SERVING], signature_def_map={...})
    builder.save()
    """

    def _add_collections(self, assets_collection: Any, main_op: Any, train_op: Any) -> None:
        if assets_collection:
            graph = ops.get_default_graph()
            graph.get_collection_ref(constants.ASSETS_KEY)[:] = []
            for asset in assets_collection:
                _check_asset(asset)
                ops.add_to_collection(constants.ASSETS_KEY, asset)
        if main_op is not None:
            if not isinstance(main_op, ops.Operation):
                raise TypeError("main_op needs to be an Operation: %r" % main_op)
            ops.add_to_collection(constants.MAIN_OP_KEY, main_op)
        if train_op is not None:
            if not isinstance(train_op, (ops.Tensor, ops.Operation)):
                raise TypeError("train_op needs to be a Tensor or Op: %r" % train_op)
            ops.add_to_collection(constants.TRAIN_OP_KEY, train_op)

    def add_meta_graph(
        self,
        tags: Any,
        signature_def_map: Any = None,
        assets_collection: Any = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
    ) -> None:
        """Adds the default graph, whose variables are those already saved.

        Args:
          tags: strings by which loaders find the graph.
          signature_def_map: SignatureDefs by names.
          assets_collection: string tensors with names of files to copy.
          legacy_init_op, main_op: op to run after loading; at most one.
          clear_devices: whether to remove the devices of nodes.
          strip_default_attrs: whether to leave out attributes with default values.
          saver: Saver that writes format 2; made if None.

        Raises:
          AssertionError: if no variables were saved yet, or a signature is incomplete.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke `add_meta_graph_and_variables()` first."
            )
        signature_def_map = signature_def_map or {}
        self._validate_signature_def_map(signature_def_map)
        self._add_collections(assets_collection, _one_main_op(main_op, legacy_init_op), None)
        saver = self._maybe_create_saver(saver)
        self._add_graph(tags, signature_def_map, clear_devices, saver, strip_default_attrs, assets_collection)

    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Any,
        signature_def_map: Any = None,
        assets_collection: Any = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
    ) -> None:
        """Adds the graph of the session, and saves its variables. Called once for a model.

        Args:
          sess: session with the variables.
          others: as in `add_meta_graph`.

        Raises:
          AssertionError: if variables were saved already, or a signature is incomplete.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` instead."
            )
        signature_def_map = signature_def_map or {}
        self._validate_signature_def_map(signature_def_map)
        with sess.graph.as_default():
            self._add_collections(assets_collection, _one_main_op(main_op, legacy_init_op), None)
            saver = self._maybe_create_saver(saver)
            self._save_variables(sess, saver)
            self._add_graph(
                tags, signature_def_map, clear_devices, saver, strip_default_attrs, assets_collection
            )
        self._has_saved_variables = True


def _one_main_op(main_op: Any, legacy_init_op: Any) -> Any:
    return main_op if main_op is not None else legacy_init_op


def _check_asset(asset: Any) -> None:
    if not isinstance(asset, ops.Tensor) or asset.dtype != dtypes.string:
        raise ValueError("Asset tensors must be string tensors: %s" % (asset,))


def _asset_file_def_writer(meta_graph_def: Any) -> Any:
    def write(filename: str, tensor: Any) -> None:
        definition = meta_graph_def.asset_file_def.add()
        definition.filename = filename
        definition.tensor_info.name = tensor.name

    return write


def _maybe_save_assets(write_fn: Any, assets_to_add: Any = None) -> dict[str, Any]:
    """Returns a dict from names in the model to paths of asset files; different files get different names."""
    asset_filename_map: dict[str, Any] = {}
    if assets_to_add is None:
        return asset_filename_map
    for asset_tensor in assets_to_add:
        asset_source_filepath = _asset_path_from_tensor(asset_tensor)
        if not asset_source_filepath:
            raise ValueError("Invalid asset filepath tensor {}".format(asset_tensor))
        asset_filename = get_asset_filename_to_add(asset_source_filepath, asset_filename_map)
        write_fn(asset_filename, asset_tensor)
        asset_filename_map[asset_filename] = asset_source_filepath
    return asset_filename_map


def get_asset_filename_to_add(asset_filepath: str, asset_filename_map: dict[str, Any]) -> str:
    """The file's name, with a number where another file has it."""
    asset_filename = os.path.basename(asset_filepath)
    if asset_filename not in asset_filename_map or asset_filename_map[asset_filename] == asset_filepath:
        return asset_filename
    candidate, index = asset_filename, 1
    while candidate in asset_filename_map:
        if file_io.filecmp(asset_filename_map[candidate], asset_filepath):
            return candidate
        candidate = "%s_%d" % (asset_filename, index)
        index += 1
    return candidate


def _asset_path_from_tensor(path_tensor: Any) -> str:
    """The string of a constant. Raises TypeError for anything else."""
    if not isinstance(path_tensor, ops.Tensor):
        raise TypeError("Asset path tensor must be a Tensor.")
    if path_tensor.op.type != "Const":
        raise TypeError("Asset path tensor must be of type constant.")
    if path_tensor.dtype != dtypes.string:
        raise TypeError("Asset path tensor must be of dtype string.")
    str_values = path_tensor.op.get_attr("value").string_val
    if len(str_values) != 1:
        raise TypeError("Asset path tensor must be a scalar.")
    return str(compat.as_str(str_values[0]))


def copy_assets_to_destination_dir(asset_filename_map: dict[str, Any], destination_dir: Any) -> None:
    """Copies files into the folder of assets."""
    assets_destination_dir = saved_model_utils.get_or_create_assets_dir(destination_dir)
    for asset_basename, asset_source_filepath in asset_filename_map.items():
        destination = os.path.join(compat.as_text(assets_destination_dir), compat.as_text(asset_basename))
        # A loaded model that is written again has its assets at their destination.
        if asset_source_filepath != destination and not file_io.file_exists(destination):
            file_io.copy(asset_source_filepath, destination)
    tf_logging.info("Assets written to: %s", compat.as_text(assets_destination_dir))
