// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of a function call: a chain of 100 calls, each with one Add. `call_ns` is the time of a call
// without its Add. Argument: threads.
//
//   function_call/plain    the chain without functions
//   function_call/inlined  the bodies in place of the calls
//   function_call/called   calls that stay calls
//   function_while         StatelessWhile over functions, a counter up to 1,000; `iteration_ns`
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_graph.h"
#include "graph/function_def_builder.h"
#include "graph/graph_import.h"
#include "op/attr_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

constexpr int kCalls = 100;
constexpr int kIterations = 1000;
const AttrMap kFloat = {{"T", DataType::kFloat}};

class Def {
 public:
  void Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
            const AttrMap& attrs) {
    tensorflow::NodeDef* node = def_.add_node();
    node->set_name(name);
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    AttrMapToProto(attrs, node->mutable_attr());
  }
  void Function(const FunctionBuilder& f) { bench::CheckOk(f.Build(def_.mutable_library()->add_function())); }
  std::unique_ptr<Session> MakeSession(int threads, bool inline_functions) const {
    SessionOptions options;
    options.inter_op_parallelism_threads = threads;
    options.intra_op_parallelism_threads = threads;
    if (!inline_functions) options.disabled_passes.insert("inline");
    options.fold_constants = false;
    auto session = NewSession(options);
    bench::CheckOk(session.status());
    bench::CheckOk((*session)->Create(def_));
    return *std::move(session);
  }

 private:
  tensorflow::GraphDef def_;
};

enum class Kind { kPlain, kInlined, kCalled };

double SecondsPerRun(benchmark::State& state, Session& session, const std::string& fetch) {
  const auto handle = bench::MakeCallable(session, {"x"}, {fetch}, {});
  const std::vector<Tensor> feeds{Tensor::Scalar(0.0f)};
  std::vector<Tensor> outputs;
  for (int i = 0; i < 10; ++i) bench::RunOrDie(session, handle, feeds, &outputs);
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) bench::RunOrDie(session, handle, feeds, &outputs);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return time.count() / static_cast<double>(state.iterations());
}

Def Chain(Kind kind) {
  Def def;
  def.Function(FunctionBuilder("Plus")
                   .Arg("x: float")
                   .Ret("y: float")
                   .Node("add", "Add", {"x", "x"}, kFloat)
                   .Return("y", "add:z"));
  def.Node("x", "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape()}});
  std::string last = "x";
  for (int i = 0; i < kCalls; ++i) {
    const std::string name = "c" + std::to_string(i);
    if (kind == Kind::kPlain) {
      def.Node(name, "Add", {last, last}, kFloat);
    } else {
      def.Node(name, "Plus", {last}, {});
    }
    last = name;
  }
  return def;
}

void Call(benchmark::State& state, Kind kind) {
  const int threads = static_cast<int>(state.range(0));
  const std::string fetch = "c" + std::to_string(kCalls - 1);
  static double plain = 0;
  const auto session = Chain(kind).MakeSession(threads, kind == Kind::kInlined);
  const double seconds = SecondsPerRun(state, *session, fetch);
  if (kind == Kind::kPlain) plain = seconds;
  state.counters["call_ns"] = (seconds - plain) / kCalls * 1e9;
}

void While(benchmark::State& state) {
  Def def;
  const auto constant = [](float v) -> AttrMap {
    return {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(v)}};
  };
  def.Function(FunctionBuilder("Below")
                   .Arg("x: float")
                   .Ret("go: bool")
                   .Node("limit", "Const", {}, constant(kIterations))
                   .Node("less", "Less", {"x", "limit:output"}, kFloat)
                   .Return("go", "less:z"));
  def.Function(FunctionBuilder("Count")
                   .Arg("x: float")
                   .Ret("y: float")
                   .Node("one", "Const", {}, constant(1))
                   .Node("add", "Add", {"x", "one:output"}, kFloat)
                   .Return("y", "add:z"));
  def.Node("x", "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape()}});
  def.Node("loop", "StatelessWhile", {"x"},
           {{"T", std::vector<DataType>{DataType::kFloat}},
            {"cond", NameAttrList{"Below", nullptr}},
            {"body", NameAttrList{"Count", nullptr}}});
  const auto session = def.MakeSession(static_cast<int>(state.range(0)), true);
  state.counters["iteration_ns"] = SecondsPerRun(state, *session, "loop") / kIterations * 1e9;
}

BENCHMARK_CAPTURE(Call, plain, Kind::kPlain)->Name("function_call/plain")->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(Call, inlined, Kind::kInlined)->Name("function_call/inlined")->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(Call, called, Kind::kCalled)->Name("function_call/called")->Arg(1)->Arg(2);
BENCHMARK(While)->Name("function_while")->Arg(1)->Arg(2);

}  // namespace
}  // namespace millrace
