# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The classes and functions of this folder that programs use."""
from millrace.core.framework.attr_value_pb2 import AttrValue, NameAttrList  # noqa: F401
from millrace.core.framework.graph_pb2 import GraphDef  # noqa: F401
from millrace.core.framework.node_def_pb2 import NodeDef  # noqa: F401
from millrace.python.framework import errors  # noqa: F401
from millrace.python.framework.device import DeviceSpec  # noqa: F401
from millrace.python.framework.dtypes import *  # noqa: F401,F403
from millrace.python.framework.importer import import_graph_def  # noqa: F401
from millrace.python.framework.indexed_slices import IndexedSlices, IndexedSlicesSpec  # noqa: F401
from millrace.python.framework.load_library import (
    load_file_system_library,
    load_library,
    load_op_library,
)  # noqa: F401
from millrace.python.framework.ops import (  # noqa: F401
    Graph,
    GraphKeys,
    NotDifferentiable,
    NoGradient,
    Operation,
    RegisterGradient,
    Tensor,
    add_to_collection,
    add_to_collections,
    colocate_with,
    container,
    control_dependencies,
    convert_to_tensor,
    convert_to_tensor_or_indexed_slices,
    device,
    get_collection,
    get_collection_ref,
    get_default_graph,
    name_scope,
    op_scope,
    register_tensor_conversion_function,
    reset_default_graph,
)
from millrace.python.framework.random_seed import get_seed, set_random_seed  # noqa: F401
from millrace.python.framework.sparse_tensor import (  # noqa: F401
    SparseTensor,
    SparseTensorSpec,
    SparseTensorValue,
    convert_to_tensor_or_sparse_tensor,
)
from millrace.python.framework.tensor_shape import Dimension, TensorShape  # noqa: F401
from millrace.python.framework.tensor_spec import TensorSpec  # noqa: F401
from millrace.python.framework.tensor_util import MakeNdarray as make_ndarray  # noqa: F401
from millrace.python.framework.tensor_util import constant_value  # noqa: F401
from millrace.python.framework.tensor_util import make_tensor_proto  # noqa: F401
