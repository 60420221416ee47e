// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/session_options.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/strings.h"
#include "device/device_name.h"
#include "millrace/session.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

using tensorflow::RewriterConfig;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDefaultBfcLimitMiB = int64_t{1} << 16;

Status Refuse(bool set, std::string_view field) {
  if (!set) return Status();
  return errors::Unimplemented("ConfigProto.", field, " is not supported");
}

Status RefuseRun(bool set, std::string_view field) {
  if (!set) return Status();
  return errors::Unimplemented("RunOptions.", field, " is not supported");
}

Status ReadThreads(const tensorflow::ConfigProto& config, SessionOptions* options) {
  options->intra_op_parallelism_threads = config.intra_op_parallelism_threads();
  options->inter_op_parallelism_threads = config.inter_op_parallelism_threads();
  options->use_per_session_threads = config.use_per_session_threads();
  for (const auto& pool : config.session_inter_op_thread_pool())
    options->inter_op_pools.push_back({pool.num_threads(), pool.global_name()});
  MR_RETURN_IF_ERROR(CheckThreads(*options));
  // -1: everything runs in the caller's thread.
  if (options->inter_op_parallelism_threads < 0) options->inter_op_parallelism_threads = 1;
  return Status();
}

// The pass that each toggle of RewriterConfig switches off.
struct Toggle {
  RewriterConfig::Toggle (RewriterConfig::*value)() const;
  std::string_view field;
  std::string_view optimizer;  // its name in RewriterConfig.optimizers
  std::string_view pass;
};
constexpr std::array<Toggle, 11> kToggles = {{
    {&RewriterConfig::constant_folding, "constant_folding", "constfold", "fold"},
    {&RewriterConfig::arithmetic_optimization, "arithmetic_optimization", "arithmetic", "arithmetic"},
    {&RewriterConfig::dependency_optimization, "dependency_optimization", "dependency", "dependency"},
    {&RewriterConfig::loop_optimization, "loop_optimization", "loop", "loop_invariants"},
    {&RewriterConfig::loop_optimization, "loop_optimization", "loop", "loop_products"},
    {&RewriterConfig::loop_optimization, "loop_optimization", "loop", "loop_weights"},
    {&RewriterConfig::function_optimization, "function_optimization", "function", "inline"},
    {&RewriterConfig::layout_optimizer, "layout_optimizer", "layout", "layout"},
    {&RewriterConfig::remapping, "remapping", "remap", "fuse"},
    {&RewriterConfig::remapping, "remapping", "remap", "elementwise"},
    {&RewriterConfig::shape_optimization, "shape_optimization", "shape", "shapes"},
}};
// The passes for model pruning.
constexpr std::array<std::string_view, 3> kPruningPasses = {"identity", "dead", "branches"};
constexpr std::string_view kMemoryPass = "memory";
// Optimizers that are off unless they are enabled, by name or by their own fields.
constexpr std::string_view kStripper = "debug_stripper", kMixedPrecision = "auto_mixed_precision";
// The name in RewriterConfig.custom_optimizers that enables placement by cost.
constexpr std::string_view kCostPlacement = "cost_model_placement";

// Refuses options for rewrites that this engine lacks.
Status RefuseRewrites(const RewriterConfig& r) {
  const auto on = [](RewriterConfig::Toggle t) {
    return t == RewriterConfig::ON || t == RewriterConfig::AGGRESSIVE;
  };
  const auto refuse = [](bool set, std::string_view field) {
    return Refuse(set, StrCat("graph_options.rewrite_options.", field));
  };
  MR_RETURN_IF_ERROR(refuse(on(r.scoped_allocator_optimization()), "scoped_allocator_optimization"));
  MR_RETURN_IF_ERROR(refuse(on(r.pin_to_host_optimization()), "pin_to_host_optimization"));
  MR_RETURN_IF_ERROR(refuse(on(r.implementation_selector()), "implementation_selector"));
  MR_RETURN_IF_ERROR(refuse(r.auto_parallel().enable(), "auto_parallel"));
  const RewriterConfig::MemOptType memory = r.memory_optimization();
  MR_RETURN_IF_ERROR(refuse(memory == RewriterConfig::MANUAL ||
                                memory == RewriterConfig::SWAPPING_HEURISTICS ||
                                memory == RewriterConfig::RECOMPUTATION_HEURISTICS,
                            StrCat("memory_optimization ", RewriterConfig::MemOptType_Name(memory))));
  MR_RETURN_IF_ERROR(refuse(!r.memory_optimizer_target_node_name_scope().empty(),
                            "memory_optimizer_target_node_name_scope"));
  for (const auto& custom : r.custom_optimizers()) {
    MR_RETURN_IF_ERROR(
        refuse(custom.name() != kCostPlacement, StrCat("custom_optimizers '", custom.name(), "'")));
  }
  MR_RETURN_IF_ERROR(refuse(r.has_inter_optimizer_verifier_config(), "inter_optimizer_verifier_config"));
  return refuse(r.has_post_optimization_verifier_config(), "post_optimization_verifier_config");
}

// A list of optimizers switches off all others.
Status ReadOptimizerList(const RewriterConfig& r, std::set<std::string>* disabled) {
  if (r.optimizers().empty()) return Status();
  const auto listed = [&](std::string_view name) {
    return std::find(r.optimizers().begin(), r.optimizers().end(), name) != r.optimizers().end();
  };
  for (const std::string& name : r.optimizers()) {
    const bool known =
        name == "pruning" || name == "memory" || name == kStripper || name == kMixedPrecision ||
        std::any_of(kToggles.begin(), kToggles.end(), [&](const Toggle& t) { return t.optimizer == name; });
    if (!known) return Refuse(true, StrCat("graph_options.rewrite_options.optimizers '", name, "'"));
  }
  for (const Toggle& t : kToggles) {
    if (!listed(t.optimizer)) disabled->emplace(t.pass);
  }
  if (!listed("pruning")) disabled->insert(kPruningPasses.begin(), kPruningPasses.end());
  if (!listed("memory")) disabled->emplace(kMemoryPass);
  return Status();
}

Status ReadRewrites(const RewriterConfig& r, SessionOptions* options) {
  MR_RETURN_IF_ERROR(RefuseRewrites(r));
  MR_RETURN_IF_ERROR(ReadOptimizerList(r, &options->disabled_passes));
  options->place_by_cost = r.custom_optimizers_size() > 0;
  const bool all_off = r.disable_meta_optimizer();
  options->aggressive_arithmetic = r.arithmetic_optimization() == RewriterConfig::AGGRESSIVE && !all_off;
  const auto& listed = r.optimizers();
  const auto asked = [&](RewriterConfig::Toggle toggle, std::string_view name) {
    if (all_off) return false;
    return listed.empty() ? toggle == RewriterConfig::ON || toggle == RewriterConfig::AGGRESSIVE
                          : std::find(listed.begin(), listed.end(), name) != listed.end();
  };
  options->strip_checks = asked(r.debug_stripper(), kStripper);
  options->auto_mixed_precision = asked(r.auto_mixed_precision(), kMixedPrecision);
  options->max_optimizer_rounds = static_cast<int>(r.meta_optimizer_iterations());
  // Negative numbers mean no limit in TensorFlow.
  options->min_optimized_nodes = std::max(r.min_graph_nodes(), 0);
  options->optimizer_timeout_in_ms = std::max<int64_t>(r.meta_optimizer_timeout_ms(), 0);
  for (const Toggle& t : kToggles) {
    if ((r.*t.value)() == RewriterConfig::OFF || all_off) options->disabled_passes.emplace(t.pass);
  }
  if (r.disable_model_pruning() || all_off)
    options->disabled_passes.insert(kPruningPasses.begin(), kPruningPasses.end());
  if (r.memory_optimization() == RewriterConfig::NO_MEM_OPT || all_off)
    options->disabled_passes.emplace(kMemoryPass);
  return Status();
}

Status ReadGraphOptions(const tensorflow::GraphOptions& graph, SessionOptions* options) {
  MR_RETURN_IF_ERROR(Refuse(graph.timeline_step() != 0, "graph_options.timeline_step"));
  if (graph.build_cost_model() < 0 || graph.build_cost_model_after() < 0) {
    return errors::InvalidArgument("ConfigProto.graph_options.build_cost_model is negative");
  }
  options->build_cost_model = graph.build_cost_model();
  options->build_cost_model_after = graph.build_cost_model_after();
  options->infer_shapes = graph.infer_shapes();
  options->place_pruned_graph = graph.place_pruned_graph();
  options->bfloat16_transfers = graph.enable_bfloat16_sendrecv();
  const tensorflow::OptimizerOptions& optimizer = graph.optimizer_options();
  MR_RETURN_IF_ERROR(
      Refuse(optimizer.global_jit_level() > 0, "graph_options.optimizer_options.global_jit_level"));
  if (optimizer.max_folded_constant_in_bytes() < 0) {
    return errors::InvalidArgument(
        "ConfigProto.graph_options.optimizer_options.max_folded_constant_in_bytes is negative: ",
        optimizer.max_folded_constant_in_bytes());
  }
  if (optimizer.max_folded_constant_in_bytes() > 0)
    options->max_folded_constant_bytes = optimizer.max_folded_constant_in_bytes();
  MR_RETURN_IF_ERROR(ReadRewrites(graph.rewrite_options(), options));
  // L1, the default, has number 0; L0 means no optimisation except for passes that are enabled by name.
  const bool all = optimizer.opt_level() != tensorflow::OptimizerOptions::L0;
  options->fold_constants =
      (all || optimizer.do_constant_folding()) && !options->disabled_passes.contains("fold");
  options->eliminate_common_subexpressions = all || optimizer.do_common_subexpression_elimination();
  if (all) return Status();
  for (const Toggle& t : kToggles) {
    const bool asked = t.pass == "inline" && optimizer.do_function_inlining();
    if (!asked && t.pass != "fold") options->disabled_passes.emplace(t.pass);
  }
  options->disabled_passes.insert(kPruningPasses.begin(), kPruningPasses.end());
  options->disabled_passes.emplace(kMemoryPass);
  return Status();
}

// Fields about GPUs, collectives and remote sessions have no effect in a session of this process, and are
// accepted, as TensorFlow does without a GPU.
Status ReadExperimental(const tensorflow::ConfigProto::Experimental& e) {
  if (!e.executor_type().empty() && e.executor_type() != "DEFAULT") {
    return errors::NotFound("No executor factory registered for the given executor type: ",
                            e.executor_type());
  }
  MR_RETURN_IF_ERROR(Refuse(e.use_numa_affinity(), "experimental.use_numa_affinity"));
  MR_RETURN_IF_ERROR(Refuse(e.disable_thread_spinning(), "experimental.disable_thread_spinning"));
  return Refuse(e.has_session_metadata(), "experimental.session_metadata");
}

// The limit of the BFC allocator; 0: none.
StatusOr<int64_t> CpuBfcLimit(const SessionOptions& options) {
  if (options.cpu_bfc_limit_bytes != 0) {
    if (options.cpu_bfc_limit_bytes > 0) return options.cpu_bfc_limit_bytes;
    return errors::InvalidArgument("SessionOptions.cpu_bfc_limit_bytes is negative: ",
                                   options.cpu_bfc_limit_bytes);
  }
  const char* use = std::getenv("TF_CPU_ALLOCATOR_USE_BFC");
  const std::string_view wish = use == nullptr ? "" : use;
  if (wish.empty() || wish == "0" || wish == "false") return int64_t{0};
  if (wish != "1" && wish != "true") {
    return errors::InvalidArgument("TF_CPU_ALLOCATOR_USE_BFC is neither true nor false: ", wish);
  }
  const char* limit = std::getenv("TF_CPU_BFC_MEM_LIMIT_IN_MB");
  if (limit == nullptr) return kDefaultBfcLimitMiB * kMiB;
  const auto mib = SafeStringToInt64(limit);
  if (!mib || *mib <= 0 || *mib > INT64_MAX / kMiB) {
    return errors::InvalidArgument("TF_CPU_BFC_MEM_LIMIT_IN_MB is not a number of megabytes: ", limit);
  }
  return *mib * kMiB;
}

}  // namespace

StatusOr<SessionOptions> SessionOptions::FromProto(const tensorflow::ConfigProto& config) {
  SessionOptions options;
  for (const auto& [type, count] : config.device_count()) {
    if (count < 0)
      return errors::InvalidArgument("ConfigProto.device_count['", type, "'] is negative: ", count);
    options.device_count[type] = count;
  }
  MR_RETURN_IF_ERROR(ReadThreads(config, &options));
  MR_RETURN_IF_ERROR(Refuse(config.placement_period() != 0, "placement_period"));
  options.device_filters.assign(config.device_filters().begin(), config.device_filters().end());
  options.allow_soft_placement = config.allow_soft_placement();
  options.log_device_placement = config.log_device_placement();
  options.operation_timeout_in_ms = config.operation_timeout_in_ms();
  options.isolate_session_state = config.isolate_session_state();
  MR_RETURN_IF_ERROR(ReadGraphOptions(config.graph_options(), &options));
  MR_RETURN_IF_ERROR(ReadExperimental(config.experimental()));
  options.config = config.SerializeAsString();
  return options;
}

StatusOr<RunOptions> RunOptions::FromProto(const tensorflow::RunOptions& proto) {
  RunOptions options;
  if (proto.trace_level() < tensorflow::RunOptions::NO_TRACE ||
      proto.trace_level() > tensorflow::RunOptions::FULL_TRACE) {
    return errors::InvalidArgument("RunOptions.trace_level is not a trace level: ",
                                   static_cast<int>(proto.trace_level()));
  }
  options.trace_level = static_cast<TraceLevel>(proto.trace_level());
  options.timeout_in_ms = proto.timeout_in_ms();
  options.inter_op_thread_pool = proto.inter_op_thread_pool();
  options.output_partition_graphs = proto.output_partition_graphs();
  for (const tensorflow::DebugTensorWatch& watch : proto.debug_options().debug_tensor_watch_opts()) {
    options.debug_watches.push_back({watch.node_name(),
                                     watch.output_slot(),
                                     {watch.debug_ops().begin(), watch.debug_ops().end()},
                                     {watch.debug_urls().begin(), watch.debug_urls().end()},
                                     watch.tolerate_debug_op_creation_failures()});
  }
  options.report_tensor_allocations_upon_oom = proto.report_tensor_allocations_upon_oom();
  MR_RETURN_IF_ERROR(
      RefuseRun(proto.experimental().collective_graph_key() != 0, "experimental.collective_graph_key"));
  MR_RETURN_IF_ERROR(
      RefuseRun(proto.experimental().use_run_handler_pool(), "experimental.use_run_handler_pool"));
  return options;
}

StatusOr<CallableOptions> CallableOptions::FromProto(const tensorflow::CallableOptions& proto) {
  CallableOptions options;
  options.feeds.assign(proto.feed().begin(), proto.feed().end());
  options.fetches.assign(proto.fetch().begin(), proto.fetch().end());
  options.targets.assign(proto.target().begin(), proto.target().end());
  MR_ASSIGN_OR_RETURN(options.run_options, RunOptions::FromProto(proto.run_options()));
  for (const tensorflow::TensorConnection& connection : proto.tensor_connection())
    options.tensor_connections.push_back({connection.from_tensor(), connection.to_tensor()});
  options.feed_devices.insert(proto.feed_devices().begin(), proto.feed_devices().end());
  options.fetch_devices.insert(proto.fetch_devices().begin(), proto.fetch_devices().end());
  options.fetch_skip_sync = proto.fetch_skip_sync();
  return options;
}

CompileOptions CompileOptionsOf(const SessionOptions& options) {
  CompileOptions compile{options};
  const char* variable = std::getenv("MILLRACE_DISABLE_PASSES");
  std::string_view names = variable == nullptr ? "" : variable;
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    if (comma > 0) compile.disabled_passes.emplace(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  // TensorFlow's environment variable for unchanged programs.
  const char* mixed = std::getenv("TF_ENABLE_AUTO_MIXED_PRECISION");
  if (mixed != nullptr && (std::string_view(mixed) == "1" || std::string_view(mixed) == "true"))
    compile.auto_mixed_precision = true;
  return compile;
}

Status CheckThreads(const SessionOptions& options) {
  static constexpr int kMost = 1 << 16;
  const auto check = [](std::string_view option, int threads, int least) {
    if (threads >= least && threads <= kMost) return Status();
    return errors::InvalidArgument(option, " must be ", least, " to ", kMost, ", got ", threads);
  };
  MR_RETURN_IF_ERROR(check("intra_op_parallelism_threads", options.intra_op_parallelism_threads, 0));
  MR_RETURN_IF_ERROR(check("inter_op_parallelism_threads", options.inter_op_parallelism_threads, -1));
  for (const InterOpPool& pool : options.inter_op_pools)
    MR_RETURN_IF_ERROR(check("inter_op_pools", pool.num_threads, 0));
  return Status();
}

StatusOr<DeviceOptions> DeviceOptionsOf(const SessionOptions& options) {
  DeviceOptions devices;
  devices.device_count = options.device_count;
  devices.filters = options.device_filters;
  MR_ASSIGN_OR_RETURN(devices.cpu_bfc_limit_bytes, CpuBfcLimit(options));
  return devices;
}

StatusOr<std::string> CollectiveLeaderOf(const SessionOptions& options) {
  tensorflow::ConfigProto config;
  if (!config.ParseFromString(options.config))
    return errors::InvalidArgument("SessionOptions.config is not a ConfigProto");
  const std::string& leader = config.experimental().collective_group_leader();
  if (leader.empty()) return std::string();
  MR_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(leader));
  if (!name.job || !name.task)
    return errors::InvalidArgument("experimental.collective_group_leader is not a task: '", leader, "'");
  return StrCat("/job:", *name.job, "/replica:", name.replica.value_or(0), "/task:", *name.task);
}

}  // namespace millrace
