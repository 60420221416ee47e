// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each field of ConfigProto and RunOptions has its effect, or is refused by name.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "tensorflow/core/protobuf/config.pb.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

template <typename Proto>
Proto Parse(const std::string& text) {
  Proto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}
StatusOr<SessionOptions> Config(const std::string& text) {
  return SessionOptions::FromProto(Parse<tensorflow::ConfigProto>(text));
}
StatusOr<std::unique_ptr<Session>> SessionOf(const std::string& config) {
  MR_ASSIGN_OR_RETURN(const SessionOptions options, Config(config));
  return NewSession(options);
}

TEST(ConfigTest, WhatIsNotSupportedIsRefusedByName) {
  const std::pair<const char*, const char*> rows[] = {
      {"placement_period: 3", "ConfigProto.placement_period is not supported"},
      {"graph_options { timeline_step: 2 }", "ConfigProto.graph_options.timeline_step is not supported"},
      {"graph_options { optimizer_options { global_jit_level: ON_1 } }",
       "ConfigProto.graph_options.optimizer_options.global_jit_level is not supported"},
      {"graph_options { rewrite_options { auto_parallel { enable: true } } }",
       "ConfigProto.graph_options.rewrite_options.auto_parallel is not supported"},
      {"graph_options { rewrite_options { memory_optimization: SWAPPING_HEURISTICS } }",
       "ConfigProto.graph_options.rewrite_options.memory_optimization SWAPPING_HEURISTICS is not supported"},
      {"graph_options { rewrite_options { memory_optimization: RECOMPUTATION_HEURISTICS } }",
       "ConfigProto.graph_options.rewrite_options.memory_optimization RECOMPUTATION_HEURISTICS is not "
       "supported"},
      {"graph_options { rewrite_options { memory_optimization: MANUAL } }",
       "ConfigProto.graph_options.rewrite_options.memory_optimization MANUAL is not supported"},
      {"graph_options { rewrite_options { optimizers: 'constfold' optimizers: 'magic' } }",
       "ConfigProto.graph_options.rewrite_options.optimizers 'magic' is not supported"},
      {"graph_options { rewrite_options { custom_optimizers { name: 'mine' } } }",
       "ConfigProto.graph_options.rewrite_options.custom_optimizers 'mine' is not supported"},
      {"experimental { use_numa_affinity: true }",
       "ConfigProto.experimental.use_numa_affinity is not supported"},
      {"experimental { session_metadata { name: 'm' } }",
       "ConfigProto.experimental.session_metadata is not supported"},
  };
  for (const auto& [config, text] : rows) {
    const Status status = Config(config).status();
    EXPECT_TRUE(errors::IsUnimplemented(status)) << config << ": " << status;
    EXPECT_EQ(status.message(), text);
  }
  EXPECT_EQ(Config("experimental { executor_type: 'FAST' }").status().message(),
            "No executor factory registered for the given executor type: FAST");
}

TEST(ConfigTest, ImpossibleNumbersAreRefused) {
  for (const char* config :
       {"intra_op_parallelism_threads: -1", "inter_op_parallelism_threads: -2",
        "device_count { key: 'CPU' value: -1 }", "session_inter_op_thread_pool { num_threads: -1 }",
        "graph_options { build_cost_model: -1 }",
        "graph_options { optimizer_options { max_folded_constant_in_bytes: -1 } }"}) {
    EXPECT_TRUE(errors::IsInvalidArgument(Config(config).status())) << config;
  }
}

TEST(ConfigTest, WhatHasNothingToActOnHereIsAccepted) {
  for (const char* config : {"gpu_options { per_process_gpu_memory_fraction: 0.5 allow_growth: true }",
                             "gpu_options { allocator_type: 'BFC' visible_device_list: '0,1' }",
                             "device_count { key: 'GPU' value: 0 }", "isolate_session_state: true",
                             "rpc_options { use_rpc_for_inprocess_master: true }",
                             "graph_options { enable_recv_scheduling: true }",
                             "graph_options { rewrite_options { constant_folding: ON remapping: AGGRESSIVE "
                             "debug_stripper: OFF } }",
                             "experimental { executor_type: 'DEFAULT' optimize_for_static_graph: true }"}) {
    EXPECT_TRUE(SessionOf(config).ok()) << config;
  }
}

TEST(ConfigTest, TogglesNameThePassesTheySwitchOff) {
  EXPECT_THAT(Config("")->disabled_passes, UnorderedElementsAre());
  EXPECT_TRUE(Config("")->fold_constants);
  const auto off = Config(
      "graph_options { rewrite_options { constant_folding: OFF layout_optimizer: OFF "
      "disable_model_pruning: true } }");
  EXPECT_THAT(off->disabled_passes, UnorderedElementsAre("fold", "layout", "identity", "dead", "branches"));
  EXPECT_FALSE(off->fold_constants);
  EXPECT_TRUE(off->eliminate_common_subexpressions);
  const auto listed =
      Config("graph_options { rewrite_options { optimizers: ['pruning', 'constfold', 'remap', 'memory'] } }");
  EXPECT_THAT(listed->disabled_passes,
              UnorderedElementsAre("arithmetic", "dependency", "loop_invariants", "loop_products",
                                   "loop_weights", "inline", "layout", "shapes"));
  EXPECT_TRUE(listed->fold_constants);
}

StatusOr<SessionOptions> Rewrites(const std::string& text) {
  return Config("graph_options { rewrite_options { " + text + " } }");
}

TEST(ConfigTest, SettingsOfTheOptimizersAreTaken) {
  EXPECT_FALSE(Config("")->aggressive_arithmetic);
  EXPECT_TRUE(Rewrites("arithmetic_optimization: AGGRESSIVE")->aggressive_arithmetic);
  EXPECT_FALSE(Rewrites("arithmetic_optimization: ON constant_folding: AGGRESSIVE")->aggressive_arithmetic);
  EXPECT_FALSE(
      Rewrites("arithmetic_optimization: AGGRESSIVE disable_meta_optimizer: true")->aggressive_arithmetic);
  EXPECT_FALSE(Config("")->strip_checks);
  EXPECT_TRUE(Rewrites("debug_stripper: ON")->strip_checks);
  EXPECT_FALSE(Rewrites("debug_stripper: ON optimizers: 'pruning'")->strip_checks);
  EXPECT_TRUE(Rewrites("optimizers: 'debug_stripper'")->strip_checks);
  EXPECT_FALSE(Config("")->auto_mixed_precision);
  EXPECT_TRUE(Rewrites("auto_mixed_precision: ON")->auto_mixed_precision);
  EXPECT_FALSE(Rewrites("auto_mixed_precision: ON disable_meta_optimizer: true")->auto_mixed_precision);
  EXPECT_FALSE(Rewrites("auto_mixed_precision: ON optimizers: 'pruning'")->auto_mixed_precision);
  EXPECT_TRUE(Rewrites("optimizers: 'auto_mixed_precision'")->auto_mixed_precision);
  EXPECT_EQ(Config("")->max_optimizer_rounds, 0);
  EXPECT_EQ(Rewrites("meta_optimizer_iterations: TWO")->max_optimizer_rounds, 2);
  EXPECT_EQ(Rewrites("min_graph_nodes: 17")->min_optimized_nodes, 17);
  EXPECT_EQ(Rewrites("min_graph_nodes: -1")->min_optimized_nodes, 0);
  EXPECT_EQ(Rewrites("meta_optimizer_timeout_ms: 250")->optimizer_timeout_in_ms, 250);
  EXPECT_EQ(Rewrites("meta_optimizer_timeout_ms: -1")->optimizer_timeout_in_ms, 0);
  for (const char* kind : {"SCHEDULING_HEURISTICS", "HEURISTICS", "DEFAULT_MEM_OPT"}) {
    const auto options = Rewrites(std::string("memory_optimization: ") + kind);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_FALSE(options->disabled_passes.contains("memory"));
  }
  EXPECT_TRUE(Rewrites("memory_optimization: NO_MEM_OPT")->disabled_passes.contains("memory"));
}

TEST(ConfigTest, LevelZeroLeavesOnlyWhatIsNamed) {
  const auto none = Config("graph_options { optimizer_options { opt_level: L0 } }");
  EXPECT_FALSE(none->fold_constants);
  EXPECT_FALSE(none->eliminate_common_subexpressions);
  EXPECT_TRUE(none->disabled_passes.contains("inline"));
  const auto some = Config(
      "graph_options { optimizer_options { opt_level: L0 do_constant_folding: true do_function_inlining: "
      "true "
      "max_folded_constant_in_bytes: 77 } }");
  EXPECT_TRUE(some->fold_constants);
  EXPECT_EQ(some->max_folded_constant_bytes, 77);
  EXPECT_FALSE(some->eliminate_common_subexpressions);
  EXPECT_FALSE(some->disabled_passes.contains("inline"));
  EXPECT_TRUE(some->disabled_passes.contains("fuse"));
}

// c = a * a with a constant of 64 floats.
DefBuilder ConstantSquare() {
  DefBuilder g;
  Tensor a(DataType::kFloat, TensorShape({64}));
  for (float& x : a.flat<float>()) x = 3;
  g.Const("a", a);
  g.Float("c", "Mul", {"a", "a"});
  g.Float("out", "Neg", {"c"});
  return g;
}

std::string TracedOps(Session& session, const std::string& fetch) {
  RunOptions run;
  run.trace_level = RunOptions::TraceLevel::kFull;
  RunMetadata metadata;
  std::vector<Tensor> out;
  EXPECT_TRUE(session.Run(run, {}, {fetch}, {}, &out, &metadata).ok());
  std::string ops;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& node : device.nodes) ops += node.op + " ";
  }
  return ops;
}

TEST(ConfigTest, FoldedConstantsStayBelowTheLimit) {
  if (PassesAreOff()) GTEST_SKIP() << "tests a pass";
  const auto ops = [](const std::string& optimizer) {
    auto options = Config("graph_options { optimizer_options { " + optimizer + " } }");
    EXPECT_TRUE(options.ok());
    options->disabled_passes.insert("elementwise");
    const auto session = SessionWith(ConstantSquare(), *options);
    return TracedOps(*session, "out");
  };
  EXPECT_THAT(ops(""), Not(HasSubstr("Mul")));
  EXPECT_THAT(ops("max_folded_constant_in_bytes: 256"), Not(HasSubstr("Mul")));
  EXPECT_THAT(ops("max_folded_constant_in_bytes: 255"), HasSubstr("Mul"));
  EXPECT_THAT(ops("opt_level: L0"), HasSubstr("Mul"));
}

TEST(ConfigTest, SmallGraphsAreNotChanged) {
  if (PassesAreOff()) GTEST_SKIP() << "tests a pass";
  const auto ops = [](const std::string& rewrites) {
    const auto options = Rewrites(rewrites);
    EXPECT_TRUE(options.ok()) << options.status();
    return TracedOps(*SessionWith(ConstantSquare(), *options), "out");
  };
  EXPECT_THAT(ops("min_graph_nodes: 2"), Not(HasSubstr("Mul")));
  EXPECT_THAT(ops("min_graph_nodes: 100"), HasSubstr("Mul"));
}

TEST(ConfigTest, ChecksAreStrippedOnRequest) {
  if (PassesAreOff()) GTEST_SKIP() << "tests a pass";
  if (NodesAreSpread()) GTEST_SKIP() << "nodes that send to another device stay, including checks";
  DefBuilder g;
  g.Const("a", Tensor::Scalar(std::numeric_limits<float>::infinity()));
  (*g.Float("checked", "CheckNumerics", {"a"})->mutable_attr())["message"].set_s("a is");
  const auto strict = SessionWith(g);
  std::vector<Tensor> out;
  EXPECT_TRUE(errors::IsInvalidArgument(strict->Run({}, {"checked"}, {}, &out)));
  const auto lenient = SessionWith(g, *Rewrites("debug_stripper: ON"));
  EXPECT_TRUE(lenient->Run({}, {"checked"}, {}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), std::numeric_limits<float>::infinity());
}

TEST(ConfigTest, DeviceFiltersHideDevices) {
  const auto session = SessionOf(
      "device_count { key: 'CPU' value: 4 } device_filters: '/job:localhost/device:CPU:2' device_filters: "
      "'/job:ps'");
  ASSERT_TRUE(session.ok()) << session.status();
  const auto devices = (*session)->ListDevices();
  ASSERT_EQ(devices->size(), InCluster() ? 6u : 2u);
  EXPECT_THAT((*devices)[1].name, HasSubstr("CPU:2"));
  EXPECT_TRUE(errors::IsInvalidArgument(SessionOf("device_filters: 'cpu'").status()));
}

TEST(ConfigTest, RunsChooseTheirThreadPool) {
  DefBuilder g = ConstantSquare();
  const auto options = Config(
      "session_inter_op_thread_pool { num_threads: 2 } "
      "session_inter_op_thread_pool { num_threads: 3 global_name: 'config_test' } "
      "session_inter_op_thread_pool {}");
  ASSERT_TRUE(options.ok()) << options.status();
  const auto session = SessionWith(g, *options);
  std::vector<Tensor> out;
  for (const int pool : {-1, 0, 1, 2}) {
    RunOptions run;
    run.inter_op_thread_pool = pool;
    ASSERT_TRUE(session->Run(run, {}, {"out"}, {}, &out, nullptr).ok());
    EXPECT_EQ(out[0].flat<float>()[5], -9) << pool;
  }
  for (const int pool : {-2, 3, 1000}) {
    RunOptions run;
    run.inter_op_thread_pool = pool;
    const Status status = session->Run(run, {}, {"out"}, {}, &out, nullptr);
    EXPECT_TRUE(errors::IsInvalidArgument(status));
    EXPECT_EQ(status.message(), "Invalid inter_op_thread_pool: " + std::to_string(pool));
  }
  const auto plain = SessionWith(g);
  RunOptions run;
  run.inter_op_thread_pool = 1;
  EXPECT_TRUE(errors::IsInvalidArgument(plain->Run(run, {}, {"out"}, {}, &out, nullptr)));
  run.inter_op_thread_pool = -1;
  EXPECT_TRUE(plain->Run(run, {}, {"out"}, {}, &out, nullptr).ok());
}

TEST(ConfigTest, APoolWithANameKeepsItsSize) {
  ASSERT_TRUE(SessionOf("session_inter_op_thread_pool { num_threads: 2 global_name: 'sized' }").ok());
  EXPECT_TRUE(SessionOf("session_inter_op_thread_pool { num_threads: 2 global_name: 'sized' }").ok());
  const Status status =
      SessionOf("session_inter_op_thread_pool { num_threads: 3 global_name: 'sized' }").status();
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "Pool sized configured previously with num_threads=2; cannot re-configure with num_threads=3");
}

TEST(ConfigTest, EveryMixOfThreadCountsGivesTheSameResults) {
  DefBuilder g;
  g.ShapedPlaceholder("x", {-1});
  std::vector<std::string> fetches;
  for (int i = 0; i < 8; ++i) {
    g.Float("sq" + std::to_string(i), "Square", {"x"});
    g.Float("n" + std::to_string(i), "Exp", {"sq" + std::to_string(i)});
    fetches.push_back("n" + std::to_string(i));
  }
  Tensor x(DataType::kFloat, TensorShape({100000}));
  for (int i = 0; i < 100000; ++i) x.flat<float>()[static_cast<size_t>(i)] = static_cast<float>(i) * 1e-5f;
  for (const char* config :
       {"inter_op_parallelism_threads: 4 intra_op_parallelism_threads: 2",
        "inter_op_parallelism_threads: 2 intra_op_parallelism_threads: 4",
        "inter_op_parallelism_threads: 1 intra_op_parallelism_threads: 3",
        "inter_op_parallelism_threads: 3 intra_op_parallelism_threads: 1",
        "inter_op_parallelism_threads: -1 intra_op_parallelism_threads: 1",
        "session_inter_op_thread_pool { num_threads: 3 } intra_op_parallelism_threads: 2"}) {
    const auto session = SessionWith(g, *Config(config));
    std::vector<Tensor> out;
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(session->Run({{"x", x}}, fetches, {}, &out).ok()) << config;
    for (const Tensor& t : out) EXPECT_NEAR(t.flat<float>()[99999], std::exp(0.99998f), 1e-4f) << config;
  }
}

TEST(ConfigTest, FloatsLoseTheirLowerHalfBetweenDevices) {
  DefBuilder g;
  g.ShapedPlaceholder("x", {-1});
  (*g.Float("here", "Identity", {"x"})).set_device("/cpu:0");
  (*g.Float("there", "Identity", {"here"})).set_device("/cpu:1");
  (*g.Float("back", "Identity", {"there"})).set_device("/cpu:0");
  const std::vector<float> values = {1.0f,        1.0078125f, 3.14159274f, -2.71828175f,
                                     16777217.0f, 1e-40f,     INFINITY,    std::bit_cast<float>(0x7f800001u)};
  const auto run = [&](const std::string& config) {
    const auto options = Config("device_count { key: 'CPU' value: 2 } " + config);
    const auto session = SessionWith(g, *options);
    std::vector<Tensor> out;
    EXPECT_TRUE(session->Run({{"x", Tensor::Vector<float>(values)}}, {"back"}, {}, &out).ok());
    return out.at(0);
  };
  const Tensor exact = run("");
  const Tensor cut = run("graph_options { enable_bfloat16_sendrecv: true }");
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    EXPECT_EQ(exact.flat<float>()[i], values[i]);
    const float expected = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) & 0xffff0000u);
    EXPECT_EQ(cut.flat<float>()[i], expected) << values[i];
  }
  EXPECT_EQ(cut.flat<float>()[2], 3.140625f) << "pi, cut off and not rounded";
  EXPECT_TRUE(std::isnan(cut.flat<float>()[values.size() - 1])) << "cut off, it would be infinite";
}

TEST(ConfigTest, SomeRunsAreMeasuredForTheCostModel) {
  const auto options = Config(
      "graph_options { build_cost_model: 2 build_cost_model_after: 1 optimizer_options { opt_level: L0 } }");
  ASSERT_TRUE(options.ok()) << options.status();
  const auto session = SessionWith(ConstantSquare(), *options);
  for (int run = 0; run < 6; ++run) {
    RunMetadata metadata;
    std::vector<Tensor> out;
    ASSERT_TRUE(session->Run({}, {}, {"out"}, {}, &out, &metadata).ok());
    EXPECT_EQ(out[0].flat<float>()[5], -9);
    EXPECT_TRUE(metadata.devices.empty()) << "no trace was requested";
    if (run != 2 && run != 4) {
      EXPECT_TRUE(metadata.cost_graph.empty()) << run;
      continue;
    }
    tensorflow::RunMetadata proto;
    metadata.ToProto(&proto);
    std::map<std::string, const tensorflow::CostGraphDef::Node*> nodes;
    for (const auto& node : proto.cost_graph().node()) nodes[node.name()] = &node;
    ASSERT_TRUE(nodes.contains("c") && nodes.contains("out") && nodes.contains("a")) << run;
    const auto& c = *nodes["c"];
    EXPECT_THAT(c.device(), HasSubstr(OnFakeDevices() ? "/device:" : "/device:CPU:0"));
    ASSERT_EQ(c.input_info_size(), 2);
    // On another device than "a" it is the node that receives it.
    if (!NodesAreSpread() || nodes["a"]->device() == c.device()) {
      EXPECT_EQ(c.input_info(1).preceding_node(), nodes["a"]->id());
    }
    EXPECT_EQ(c.output_info(0).size(), 256);
    EXPECT_EQ(c.output_info(0).shape().dim(0).size(), 64);
    EXPECT_FALSE(c.inaccurate());
    EXPECT_FALSE(c.is_final());
  }
}

TEST(ConfigTest, PlacementByCostUsesTheSecondDeviceWhenItPays) {
  if (NodesAreSpread()) GTEST_SKIP() << "is about where nodes are placed";
  DefBuilder g;
  g.ShapedPlaceholder("x", {1 << 16});
  for (const std::string chain : {"p", "q"}) {
    g.Float(chain + "1", "Sin", {"x"});
    g.Float(chain + "2", "Cos", {chain + "1"});
    g.Float(chain + "3", "Tanh", {chain + "2"});
  }
  g.Float("sum", "Add", {"p3", "q3"});
  const auto devices = [&](const std::string& rewrites) {
    const auto options = Config("device_count { key: 'CPU' value: 2 } graph_options { " + rewrites +
                                " optimizer_options { opt_level: L0 } }");
    EXPECT_TRUE(options.ok()) << options.status();
    const auto session = SessionWith(g, *options);
    Tensor x(DataType::kFloat, TensorShape({1 << 16}));
    for (float& value : x.flat<float>()) value = 0.5f;
    RunOptions run;
    run.trace_level = RunOptions::TraceLevel::kFull;
    RunMetadata metadata;
    std::vector<Tensor> out;
    EXPECT_TRUE(session->Run(run, {{"x", x}}, {"sum"}, {}, &out, &metadata).ok());
    EXPECT_NEAR(out[0].flat<float>()[77], 2 * std::tanh(std::cos(std::sin(0.5f))), 1e-5f);
    return metadata.devices.size();
  };
  EXPECT_EQ(devices(""), 1u);
  EXPECT_EQ(devices("rewrite_options { custom_optimizers { name: 'cost_model_placement' } }"), 2u);
}

TEST(ConfigTest, RunOptionsComeFromTheirMessage) {
  const auto options = RunOptions::FromProto(Parse<tensorflow::RunOptions>(
      "trace_level: FULL_TRACE timeout_in_ms: 7 inter_op_thread_pool: -1 output_partition_graphs: true "
      "debug_options { debug_tensor_watch_opts { node_name: 'a' output_slot: 1 debug_ops: 'DebugIdentity' "
      "debug_urls: 'file:///d' tolerate_debug_op_creation_failures: true } }"));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->trace_level, RunOptions::TraceLevel::kFull);
  EXPECT_EQ(options->timeout_in_ms, 7);
  EXPECT_EQ(options->inter_op_thread_pool, -1);
  EXPECT_TRUE(options->output_partition_graphs);
  ASSERT_EQ(options->debug_watches.size(), 1u);
  const DebugWatch& watch = options->debug_watches[0];
  EXPECT_EQ(watch.node, "a");
  EXPECT_EQ(watch.output, 1);
  EXPECT_EQ(watch.ops, std::vector<std::string>{"DebugIdentity"});
  EXPECT_EQ(watch.urls, std::vector<std::string>{"file:///d"});
  EXPECT_TRUE(watch.tolerate_failures);
  for (const char* text :
       {"experimental { use_run_handler_pool: true }", "experimental { collective_graph_key: 1 }"}) {
    EXPECT_TRUE(errors::IsUnimplemented(RunOptions::FromProto(Parse<tensorflow::RunOptions>(text)).status()))
        << text;
  }
  tensorflow::RunOptions odd;
  odd.set_trace_level(static_cast<tensorflow::RunOptions::TraceLevel>(9));
  EXPECT_TRUE(errors::IsInvalidArgument(RunOptions::FromProto(odd).status()));
}

TEST(ConfigTest, CpusUseTheBfcAllocatorByOptionOrEnvironment) {
  const auto limit = [](const SessionOptions& options) -> StatusOr<int64_t> {
    MR_ASSIGN_OR_RETURN(const auto session, NewSession(options));
    MR_ASSIGN_OR_RETURN(const auto devices, session->ListDevices());
    return devices[0].memory_limit;
  };
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(*limit({}), 256 * kMiB) << "as in TensorFlow for a CPU";
  SessionOptions by_option;
  by_option.cpu_bfc_limit_bytes = 8 * kMiB;
  EXPECT_EQ(*limit(by_option), 8 * kMiB);
  by_option.cpu_bfc_limit_bytes = -1;
  EXPECT_TRUE(errors::IsInvalidArgument(limit(by_option).status()));

  setenv("TF_CPU_ALLOCATOR_USE_BFC", "true", 1);
  EXPECT_EQ(*limit({}), 65536 * kMiB);
  setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "32", 1);
  EXPECT_EQ(*limit({}), 32 * kMiB);
  setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "many", 1);
  EXPECT_TRUE(errors::IsInvalidArgument(limit({}).status()));
  setenv("TF_CPU_ALLOCATOR_USE_BFC", "perhaps", 1);
  EXPECT_TRUE(errors::IsInvalidArgument(limit({}).status()));
  setenv("TF_CPU_ALLOCATOR_USE_BFC", "false", 1);
  EXPECT_EQ(*limit({}), 256 * kMiB);
  unsetenv("TF_CPU_ALLOCATOR_USE_BFC");
  unsetenv("TF_CPU_BFC_MEM_LIMIT_IN_MB");
}

TEST(ConfigTest, AStepBeyondTheLimitListsItsNodesOnDemand) {
  if (NodesAreSpread()) GTEST_SKIP() << "is about the nodes of one device";
  SessionOptions options;
  options.cpu_bfc_limit_bytes = 16 << 20;
  options.fold_constants = false;
  DefBuilder g;
  g.Const("dims", Tensor::Vector<int32_t>({1 << 20}));
  g.Placeholder("x");
  g.Float("big", "Fill", {"dims", "x"});
  g.Float("other", "Exp", {"big"});
  g.Float("bigger", "Sin", {"other"});
  g.Float("sum", "AddN", {"big", "other", "bigger", "bigger"});
  (*g.mutable_def()->mutable_node(5)->mutable_attr())["N"].set_i(4);
  const auto session = SessionWith(g, options);
  RunOptions run;
  run.report_tensor_allocations_upon_oom = true;
  std::vector<Tensor> out;
  const Status status =
      session->Run(run, {{"x", Tensor::Scalar(1.0f)}}, {"sum", "big", "other", "bigger"}, {}, &out, nullptr);
  ASSERT_TRUE(errors::IsResourceExhausted(status)) << status;
  const std::string& text = status.message();
  EXPECT_THAT(text, HasSubstr("Current usage from device: /job:localhost/replica:0/task:0/device:CPU:0, "
                              "allocator: "));
  for (const char* node : {"big", "other"}) {
    EXPECT_THAT(text, HasSubstr(StrCat("  4.00MiB from ", node, "\n")));
  }
  EXPECT_THAT(text, Not(HasSubstr("Hint:")));
  ASSERT_TRUE(session->Run(run, {{"x", Tensor::Scalar(1.0f)}}, {"big"}, {}, &out, nullptr).ok());
  EXPECT_EQ(out[0].flat<float>()[7], 1) << "a step with enough memory is as always";
}

TEST(ConfigTest, ShapesAreWrittenIntoNodesOnDemand) {
  DefBuilder g;
  g.ShapedPlaceholder("x", {-1, 3});
  g.Float("y", "Neg", {"x"});
  g.Placeholder("z");
  g.Float("w", "Neg", {"z"});
  SessionOptions options;
  options.infer_shapes = true;
  const auto session = SessionWith(g, options);
  RunOptions run;
  run.output_partition_graphs = true;
  RunMetadata metadata;
  std::vector<Tensor> out;
  const Tensor x = Tensor::From<float>({1, 2, 3}, TensorShape({1, 3}));
  ASSERT_EQ(session->Run(run, {{"x", x}, {"z", x}}, {"y", "w"}, {}, &out, &metadata), Status());
  std::map<std::string, std::string> shapes;
  for (const std::string& bytes : metadata.partition_graphs) {
    tensorflow::GraphDef graph;
    ASSERT_TRUE(graph.ParseFromString(bytes));
    for (const auto& node : graph.node()) {
      const auto at = node.attr().find("_output_shapes");
      if (at != node.attr().end()) shapes[node.name()] = at->second.list().shape(0).ShortDebugString();
    }
  }
  EXPECT_EQ(shapes["y"], "dim { size: -1 } dim { size: 3 }");
  EXPECT_EQ(shapes["w"], "unknown_rank: true");
}

TEST(ConfigTest, AStepBeyondTheLimitListsTheOwnersOfTheMemory) {
  if (NodesAreSpread()) GTEST_SKIP() << "is about the nodes of one device";
  SessionOptions options;
  options.cpu_bfc_limit_bytes = 6 << 20;
  options.fold_constants = false;
  options.disabled_passes = {"elementwise"};
  DefBuilder g;
  g.Const("dims", Tensor::Vector<int32_t>({1 << 20}));
  g.Const("one", Tensor::Scalar(1.0f));
  g.Float("big", "Fill", {"dims", "one"});
  g.Float("bigger", "Exp", {"big"});
  g.Float("sum", "Add", {"big", "bigger"});
  const auto session = SessionWith(g, options);
  std::vector<Tensor> out;
  const Status status = session->Run({}, {"sum", "big"}, {}, &out);
  EXPECT_TRUE(errors::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("OOM when allocating tensor with shape[1048576] and type float"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("limit 6.00MiB, in use 6.00MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Largest holders: big 6.00MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("[[{{node bigger}}]]"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("Hint: If you want to see a list of allocated tensors when OOM happens, add "
                        "report_tensor_allocations_upon_oom to RunOptions for current allocation info."));
  ASSERT_TRUE(session->Run({}, {"big"}, {}, &out).ok()) << "what the failed step held is free again";
  EXPECT_EQ(out[0].flat<float>()[1 << 19], 1);
}

}  // namespace
}  // namespace millrace
