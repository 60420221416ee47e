// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/session.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

Status Refuse(bool set, const char* field) {
  if (!set) return Status();
  return errors::Unimplemented("ConfigProto.", field, " is not supported");
}

Status ReadGraphOptions(const tensorflow::GraphOptions& graph, SessionOptions* options) {
  MR_RETURN_IF_ERROR(Refuse(graph.enable_bfloat16_sendrecv(), "graph_options.enable_bfloat16_sendrecv"));
  MR_RETURN_IF_ERROR(Refuse(graph.timeline_step() != 0, "graph_options.timeline_step"));
  MR_RETURN_IF_ERROR(Refuse(graph.build_cost_model() != 0, "graph_options.build_cost_model"));
  options->place_pruned_graph = graph.place_pruned_graph();
  const tensorflow::OptimizerOptions& optimizer = graph.optimizer_options();
  MR_RETURN_IF_ERROR(
      Refuse(optimizer.global_jit_level() > 0, "graph_options.optimizer_options.global_jit_level"));
  // L1, the default, has number 0; L0 means no optimisation unless a pass is asked for by name.
  const bool all = optimizer.opt_level() != tensorflow::OptimizerOptions::L0;
  options->fold_constants = all || optimizer.do_constant_folding();
  options->eliminate_common_subexpressions = all || optimizer.do_common_subexpression_elimination();
  return Status();
}

}  // namespace

StatusOr<SessionOptions> SessionOptions::FromProto(const tensorflow::ConfigProto& config) {
  SessionOptions options;
  for (const auto& [type, count] : config.device_count()) {
    if (count < 0)
      return errors::InvalidArgument("ConfigProto.device_count['", type, "'] is negative: ", count);
    options.device_count[type] = count;
  }
  if (config.intra_op_parallelism_threads() < 0 || config.inter_op_parallelism_threads() < -1) {
    return errors::InvalidArgument("ConfigProto asks for a negative number of threads");
  }
  options.intra_op_parallelism_threads = config.intra_op_parallelism_threads();
  // A negative number of inter-op threads means: run everything in the caller's thread.
  options.inter_op_parallelism_threads =
      config.inter_op_parallelism_threads() < 0 ? 1 : config.inter_op_parallelism_threads();
  options.use_per_session_threads = config.use_per_session_threads();
  options.allow_soft_placement = config.allow_soft_placement();
  options.log_device_placement = config.log_device_placement();
  options.operation_timeout_in_ms = config.operation_timeout_in_ms();
  MR_RETURN_IF_ERROR(Refuse(config.session_inter_op_thread_pool_size() > 0, "session_inter_op_thread_pool"));
  MR_RETURN_IF_ERROR(Refuse(config.device_filters_size() > 0, "device_filters"));
  MR_RETURN_IF_ERROR(Refuse(config.has_cluster_def(), "cluster_def"));
  MR_RETURN_IF_ERROR(ReadGraphOptions(config.graph_options(), &options));
  return options;
}

}  // namespace millrace
