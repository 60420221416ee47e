# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The classes and functions of tf.train in one module."""
from __future__ import annotations

from millrace.core.example.example_pb2 import Example, SequenceExample  # noqa: F401
from millrace.core.example.feature_pb2 import (  # noqa: F401
    BytesList,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
)
from millrace.core.protobuf.cluster_pb2 import ClusterDef, JobDef  # noqa: F401
from millrace.core.protobuf.saver_pb2 import SaverDef  # noqa: F401
from millrace.core.protobuf.tensorflow_server_pb2 import ServerDef  # noqa: F401
from millrace.python.ops import gen_sdca_ops
from millrace.python.summary.summary_iterator import summary_iterator  # noqa: F401
from millrace.python.training.adadelta import AdadeltaOptimizer  # noqa: F401
from millrace.python.training.adagrad import AdagradOptimizer  # noqa: F401
from millrace.python.training.adagrad_da import AdagradDAOptimizer  # noqa: F401
from millrace.python.training.adam import AdamOptimizer  # noqa: F401
from millrace.python.training.basic_loops import basic_train_loop  # noqa: F401
from millrace.python.training.basic_session_run_hooks import *  # noqa: F401,F403
from millrace.python.training.checkpoint_management import remove_checkpoint  # noqa: F401
from millrace.python.training.checkpoint_utils import (  # noqa: F401
    checkpoints_iterator,
    init_from_checkpoint,
    list_variables,
    load_checkpoint,
    load_variable,
)
from millrace.python.training.coordinator import Coordinator, LooperThread  # noqa: F401
from millrace.python.training.device_setter import replica_device_setter  # noqa: F401
from millrace.python.training.experimental.loss_scale import (  # noqa: F401
    DynamicLossScale,
    FixedLossScale,
    LossScale,
)
from millrace.python.training.experimental.loss_scale_optimizer import (  # noqa: F401
    MixedPrecisionLossScaleOptimizer,
)
from millrace.python.training.ftrl import FtrlOptimizer  # noqa: F401
from millrace.python.training.gradient_descent import GradientDescentOptimizer  # noqa: F401
from millrace.python.training.input import *  # noqa: F401,F403
from millrace.python.training.learning_rate_decay import *  # noqa: F401,F403
from millrace.python.training.momentum import MomentumOptimizer  # noqa: F401
from millrace.python.training.monitored_session import (  # noqa: F401
    ChiefSessionCreator,
    MonitoredSession,
    MonitoredTrainingSession,
    Scaffold,
    SessionCreator,
    SingularMonitoredSession,
    WorkerSessionCreator,
)
from millrace.python.training.moving_averages import ExponentialMovingAverage  # noqa: F401
from millrace.python.training.optimizer import Optimizer  # noqa: F401
from millrace.python.training.proximal_adagrad import ProximalAdagradOptimizer  # noqa: F401
from millrace.python.training.proximal_gradient_descent import ProximalGradientDescentOptimizer  # noqa: F401
from millrace.python.training.py_checkpoint_reader import NewCheckpointReader  # noqa: F401
from millrace.python.training.queue_runner import *  # noqa: F401,F403
from millrace.python.training.rmsprop import RMSPropOptimizer  # noqa: F401
from millrace.python.training.saver import (  # noqa: F401
    Saver,
    checkpoint_exists,
    export_meta_graph,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    import_meta_graph,
    latest_checkpoint,
    update_checkpoint_state,
)
from millrace.python.training.server_lib import ClusterSpec, Server  # noqa: F401
from millrace.python.training.session_manager import SessionManager  # noqa: F401
from millrace.python.training.session_run_hook import (  # noqa: F401
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.python.training.supervisor import Supervisor  # noqa: F401
from millrace.python.training.sync_replicas_optimizer import SyncReplicasOptimizer  # noqa: F401
from millrace.python.training.training_util import (  # noqa: F401
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
    write_graph,
)
from millrace.python.training.warm_starting_util import VocabInfo, warm_start  # noqa: F401

sdca_optimizer = gen_sdca_ops.sdca_optimizer
sdca_fprint = gen_sdca_ops.sdca_fprint
sdca_shrink_l1 = gen_sdca_ops.sdca_shrink_l1
