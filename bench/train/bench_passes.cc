// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost and the effect of each optimising pass.
//
//   bench_passes compile     each pass's time on graphs of 1,000, 10,000 and 100,000 nodes: computations,
//                            constants, conditions and loops in equal parts
//   bench_passes shapes [largest [shape]]
//                            the whole compilation of graphs of several shapes, with 10,000 nodes and ten
//                            times as many up to the largest (1,000,000), and the passes that take longest
//   bench_passes steps       models: nodes that remain and time of a step with all passes, with none, and
//                            with each one off, in turns; peak memory with the pass `memory` on and off
//
// The models: mlp64 (64 layers of 256, batch 32, with gradients), conv (the digit model's training step,
// batch 100) and rnn (a recurrent network of 64 units over 20 steps of a loop, batch 32, with gradients).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_util.h"
#include "bench/train/bench_shapes.h"
#include "compile/pipeline.h"
#include "device/device.h"
#include "examples/mnist/model.h"
#include "graph/graph.h"
#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "millrace/scope.h"
#include "op/op_registry.h"
#include "step/local_worker.h"
#include "step/step_compiler.h"

namespace millrace::bench {
namespace {

double MsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Model {
  Scope scope = Scope::NewRootScope();
  std::vector<Output> feeds;
  std::vector<Tensor> values;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
  std::vector<Operation> initializers;
};

// Sums of the gradients, so that the step returns little data.
void FetchGradients(Model* m, const Output& loss, const std::vector<Output>& of) {
  std::vector<Output> grads;
  CheckOk(AddSymbolicGradients(m->scope, {loss}, of, &grads));
  for (const Output& g : grads)
    m->fetches.push_back(ops::Sum(m->scope, g, ops::Range(m->scope, 0, ops::Rank(m->scope, g), 1)));
}

void BuildMlp(Model* m) {
  const Scope& s = m->scope;
  const Output x = ops::Placeholder(s, DataType::kFloat, ops::Placeholder::Shape({32, 256}));
  Output y = x;
  std::vector<Output> weights;
  for (int i = 0; i < 64; ++i) {
    weights.push_back(ops::Const(s, RandomTensor(TensorShape({256, 256}), 0.15f)));
    weights.push_back(ops::Const(s, RandomTensor(TensorShape({256}), 0.1f)));
    y = ops::Relu(s, ops::BiasAdd(s, ops::MatMul(s, y, weights[weights.size() - 2]), weights.back()));
  }
  FetchGradients(m, ops::Sum(s, ops::Mul(s, y, y), {0, 1}), weights);
  m->feeds = {x};
  m->values = {RandomTensor(TensorShape({32, 256}), 1)};
}

void BuildConv(Model* m) {
  const mnist::Model conv = mnist::BuildModel(m->scope, *mnist::FindModelSpec("conv"), 1);
  m->feeds = {conv.images, conv.labels, conv.learning_rate};
  Tensor labels(DataType::kFloat, TensorShape({100, 10}));
  for (int64_t i = 0; i < 1000; ++i) labels.flat<float>()[static_cast<size_t>(i)] = i % 10 == i / 10 % 10;
  m->values = {RandomTensor(TensorShape({100, 28, 28, 1}), 1), labels, Tensor::Scalar(1e-4f)};
  m->targets = {conv.train_step};
  m->initializers = {conv.initializer};
}

void BuildRnn(Model* m) {
  const Scope& s = m->scope;
  constexpr int64_t kBatch = 32, kUnits = 64;
  const Output x = ops::Placeholder(s, DataType::kFloat, ops::Placeholder::Shape({kBatch, kUnits}));
  const Output w = ops::Const(s, RandomTensor(TensorShape({kUnits, kUnits}), 0.2f));
  const Output u = ops::Const(s, RandomTensor(TensorShape({kUnits, kUnits}), 0.2f));
  const Output b = ops::Const(s, RandomTensor(TensorShape({kUnits}), 0.1f));
  const std::vector<Output> end = While(
      s, {0, x}, [](const Scope& c, const std::vector<Output>& v) { return Output(ops::Less(c, v[0], 20)); },
      [&](const Scope& c, const std::vector<Output>& v) -> std::vector<Output> {
        // The contribution of the input is the same in each step.
        const Output input = ops::Add(c, ops::MatMul(c, x, u), b);
        return {ops::Add(c, v[0], 1), ops::Tanh(c, ops::Add(c, ops::MatMul(c, v[1], w), input))};
      });
  FetchGradients(m, ops::Sum(s, ops::Mul(s, end[1], end[1]), {0, 1}), {w, u, b});
  m->feeds = {x};
  m->values = {RandomTensor(TensorShape({kBatch, kUnits}), 1)};
}

// A session with a separate worker, whose passes can be observed.
class Compiler {
 public:
  explicit Compiler(const std::set<std::string>& disabled)
      : worker_(std::make_shared<LocalDevices>(Devices())) {
    CompileOptions options;
    options.disabled_passes = disabled;
    compiler_ = std::make_unique<StepCompiler>(std::vector<Worker*>{&worker_}, options);
    worker_.functions().SetCompiler(compiler_.get());
  }
  std::vector<PassStats> Passes(const Graph& graph, const RunSignature& signature) const {
    auto step = compiler_->Compile(graph, signature);
    CheckOk(step.status());
    return (*step)->passes;
  }

 private:
  static std::unique_ptr<DeviceSet> Devices() {
    auto devices = DeviceFactoryRegistry::Global().CreateDevices({});
    CheckOk(devices.status());
    return *std::move(devices);
  }
  LocalWorker worker_;
  std::unique_ptr<StepCompiler> compiler_;
};

class Step {
 public:
  Step(const Model& model, const std::set<std::string>& disabled, int64_t bfc_limit = 0) : model_(model) {
    SessionOptions options;
    options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = 1;
    options.disabled_passes = disabled;
    options.cpu_bfc_limit_bytes = bfc_limit;
    session_ = std::make_unique<ClientSession>(model.scope, options);
    if (!model.initializers.empty()) CheckOk(session_->Run({}, {}, model.initializers, nullptr));
    const auto callable = session_->MakeCallable(model.feeds, model.fetches, model.targets);
    CheckOk(callable.status());
    callable_ = *callable;
    for (int i = 0; i < 3; ++i) Run();
  }
  void Run() { CheckOk(session_->RunCallable(callable_, model_.values, &outputs_)); }
  // The best of a few Runs and of the earlier ones.
  void Measure() {
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      Run();
      best_ms_ = std::min(best_ms_, MsSince(start));
    }
  }
  double best_ms() const { return best_ms_; }

 private:
  const Model& model_;
  std::unique_ptr<ClientSession> session_;
  Session::CallableHandle callable_ = 0;
  std::vector<Tensor> outputs_;
  double best_ms_ = 1e9;
};

std::vector<PassStats> PassesOf(const Model& model, const std::set<std::string>& disabled) {
  RunSignature signature;
  for (const Output& o : model.feeds) signature.feeds.push_back(Scope::NameOf(o));
  for (const Output& o : model.fetches) signature.fetches.push_back(Scope::NameOf(o));
  for (const Operation& o : model.targets) signature.targets.push_back(Scope::NameOf(o));
  return Compiler(disabled).Passes(model.scope.graph(), signature);
}

// Sessions with the same limit share the allocator, and so does a device that is made with it.
double PeakMb(const Model& model, const std::set<std::string>& disabled) {
  static int64_t limit = int64_t{4} << 30;
  limit += 1 << 20;
  DeviceOptions options;
  options.cpu_bfc_limit_bytes = limit;
  auto devices = DeviceFactoryRegistry::Global().CreateDevices(options);
  CheckOk(devices.status());
  Step step(model, disabled, limit);
  for (int i = 0; i < 3; ++i) step.Run();
  return static_cast<double>((*devices)->devices()[0]->allocator().Stats().peak_bytes_in_use) / (1 << 20);
}

void Steps() {
  const std::pair<const char*, void (*)(Model*)> models[] = {
      {"mlp64", BuildMlp}, {"conv", BuildConv}, {"rnn", BuildRnn}};
  for (const auto& [name, build] : models) {
    Model model;
    build(&model);
    CheckOk(model.scope.status());
    std::vector<std::set<std::string>> configurations = {{}, {"all"}};
    for (const PassInfo& pass : OptionalPasses()) configurations.push_back({pass.name});
    std::vector<std::unique_ptr<Step>> steps;
    for (const auto& disabled : configurations) steps.push_back(std::make_unique<Step>(model, disabled));
    for (int turn = 0; turn < 15; ++turn) {
      for (const auto& step : steps) step->Measure();
    }
    std::printf("%s: %d nodes in the graph\n", name, model.scope.graph().num_nodes());
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::string off = configurations[i].empty() ? "nothing" : *configurations[i].begin();
      std::printf("  off: %-16s %5d nodes  %8.3f ms\n", off.c_str(),
                  PassesOf(model, configurations[i]).back().nodes_after, steps[i]->best_ms());
    }
    steps.clear();
    for (const PassStats& pass : PassesOf(model, {}))
      if (!pass.note.empty()) std::printf("  %s: %s\n", pass.pass.c_str(), pass.note.c_str());
    std::printf("  peak with `memory` %.2f MB, without %.2f MB, without any pass %.2f MB\n",
                PeakMb(model, {}), PeakMb(model, {"memory"}), PeakMb(model, {"all"}));
  }
}

// About n nodes: parts of 20 with something to do for each pass.
std::unique_ptr<Graph> Mixture(int n) {
  auto graph = std::make_unique<Graph>(OpRegistry::Global());
  const auto add = [&](const std::string& name, std::string_view op, AttrMap attrs,
                       const std::vector<std::pair<std::string, int>>& inputs) {
    auto node = graph->AddNode(name, op, std::move(attrs));
    CheckOk(node.status());
    for (size_t i = 0; i < inputs.size(); ++i)
      graph->AddEdge(graph->FindNode(inputs[i].first), inputs[i].second, *node, static_cast<int>(i));
  };
  const AttrMap type = {{"T", DataType::kFloat}};
  const auto scalar = [&](const std::string& name, const Tensor& value) {
    add(name, "Const", {{"dtype", value.dtype()}, {"value", value}}, {});
  };
  add("x", "Placeholder", {{"dtype", DataType::kFloat}, {"shape", PartialShape({8})}}, {});
  add("p", "Placeholder", {{"dtype", DataType::kBool}, {"shape", PartialShape(std::vector<int64_t>{})}}, {});
  std::string x = "x";
  for (int i = 0; i < n / 20; ++i) {
    const std::string at = "p" + std::to_string(i) + "/";
    scalar(at + "a", Tensor::Scalar(static_cast<float>(i)));
    scalar(at + "one", Tensor::Scalar(1.0f));
    add(at + "b", "Add", type, {{at + "a", 0}, {at + "one", 0}});
    add(at + "times_one", "Mul", type, {{x, 0}, {at + "one", 0}});
    add(at + "same", "Identity", type, {{at + "times_one", 0}});
    add(at + "y", "Add", type, {{at + "same", 0}, {at + "b", 0}});
    add(at + "z", "Add", type, {{at + "b", 0}, {at + "same", 0}});
    add(at + "switch", "Switch", type, {{at + "y", 0}, {"p", 0}});
    add(at + "neg", "Neg", type, {{at + "switch", 1}});
    add(at + "merge", "Merge", {{"T", DataType::kFloat}, {"N", 2}}, {{at + "switch", 0}, {at + "neg", 0}});
    const AttrMap enter = {{"T", DataType::kFloat}, {"frame_name", at}};
    AttrMap constant = enter;
    constant.Set("is_constant", true);
    add(at + "enter", "Enter", enter, {{at + "merge", 0}});
    add(at + "z_in", "Enter", constant, {{at + "z", 0}});
    add(at + "loop", "Merge", {{"T", DataType::kFloat}, {"N", 2}}, {{at + "enter", 0}, {at + "enter", 0}});
    AttrMap of_bool = constant;
    of_bool.Set("T", DataType::kBool);
    add(at + "p_in", "Enter", of_bool, {{"p", 0}});
    add(at + "cond", "LoopCond", {}, {{at + "p_in", 0}});
    add(at + "iterate", "Switch", type, {{at + "loop", 0}, {at + "cond", 0}});
    add(at + "invariant", "Neg", type, {{at + "z_in", 0}});
    add(at + "sum", "Add", type, {{at + "iterate", 1}, {at + "invariant", 0}});
    add(at + "next", "NextIteration", type, {{at + "sum", 0}});
    graph->UpdateInput(graph->FindNode(at + "loop"), 1, graph->FindNode(at + "next"), 0);
    add(at + "exit", "Exit", type, {{at + "iterate", 0}});
    x = at + "exit";
  }
  add("result", "Identity", type, {{x, 0}});
  graph->FixupSourceAndSinkEdges();
  return graph;
}

void CompileTimes() {
  std::vector<std::vector<PassStats>> runs;
  const int sizes[] = {1'000, 10'000, 100'000};
  for (const int n : sizes) {
    const auto graph = Mixture(n);
    std::vector<PassStats> best;
    for (int i = 0; i < 3; ++i) {
      const Compiler compiler({});
      std::vector<PassStats> stats = compiler.Passes(*graph, {{"x", "p"}, {"result"}, {}});
      if (best.empty()) best = stats;
      for (size_t p = 0; p < best.size(); ++p) best[p].nanos = std::min(best[p].nanos, stats[p].nanos);
    }
    runs.push_back(best);
  }
  std::printf("%-16s", "ms");
  for (const int n : sizes) std::printf("%12d", n);
  std::printf("   us a node, rounds, nodes after\n");
  for (size_t p = 0; p < runs.back().size(); ++p) {
    const PassStats& last = runs.back()[p];
    std::printf("%-16s", last.pass.c_str());
    for (const auto& run : runs) std::printf("%12.3f", static_cast<double>(run[p].nanos) / 1e6);
    std::printf("   %6.3f %6d %8d\n", static_cast<double>(last.nanos) / 1e3 / sizes[2], last.runs,
                last.nodes_after);
  }
}

// A line for each shape and size: the processor time of the compilation, and the passes that take most of it.
void ShapeTimes(int largest, std::string_view only) {
  std::printf("%-14s %9s %10s %10s   passes that take most\n", "shape", "nodes", "ms", "us a node");
  for (const GraphShape& shape : GraphShapes()) {
    if (!only.empty() && only != shape.name) continue;
    for (int n = 10'000; n <= largest; n *= 10) {
      const auto graph = shape.make(n);
      const Compiler compiler({});
      const std::clock_t start = std::clock();
      std::vector<PassStats> stats = compiler.Passes(*graph, {{"x"}, {"result"}, {}});
      const double ms = static_cast<double>(std::clock() - start) * 1000 / CLOCKS_PER_SEC;
      std::sort(stats.begin(), stats.end(),
                [](const PassStats& a, const PassStats& b) { return a.nanos > b.nanos; });
      double all = 1;
      for (const PassStats& pass : stats) all += static_cast<double>(pass.nanos);
      std::printf("%-14s %9d %10.1f %10.3f  ", shape.name, n, ms, ms * 1000 / n);
      for (size_t i = 0; i < 3 && i < stats.size(); ++i)
        std::printf(" %s %.0f %%", stats[i].pass.c_str(), 100 * static_cast<double>(stats[i].nanos) / all);
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const std::string_view what = argc >= 2 ? argv[1] : "";
  if (what == "compile") {
    millrace::bench::CompileTimes();
  } else if (what == "shapes") {
    millrace::bench::ShapeTimes(argc > 2 ? std::atoi(argv[2]) : 1'000'000, argc > 3 ? argv[3] : "");
  } else if (what == "steps") {
    millrace::bench::Steps();
  } else {
    std::fprintf(stderr, "usage: %s compile|shapes|steps\n", argv[0]);
    return 2;
  }
  return 0;
}
