// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Chains of element-wise ops on N floats, as steps of a session: fused into one node (pass `elementwise`), as
// separate nodes, and as a plain loop compiled with -O3. The last argument is the number of threads. The
// counter is the GB/s of the input and the output, which have to be read and written; the limit is limit/copy
// of bench_vector.
//
// clang-format off
//   chain4/{fused,separate,loop}/N/threads   max(x * a + b, 0) * c
//   chain8/…                                 four more: a difference, a maximum, a square and a negative
//   chain8_math/{fused,separate}/…           four of the eight are Exp, Log1p, Tanh and Sigmoid
//   rows4/{fused,separate}/…                 chain4 of rows of 64, where a, b and c are rows
//   saved/{one,now}/…                        y = x * a + b and max(y, 0), both fetched: by one node, which the
//                                            pass does not make, and by the two nodes that it makes
//   step/{fused,separate}/1/1                chain8 of one element: the saving without the effect of memory
//   step_rows/{fused,separate}/128/1         rows4 of two rows
// clang-format on
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench/bench_graph.h"
#include "bench/kernels/bench_util.h"
#include "bench/kernels/plain_loops.h"
#include "compile/pipeline.h"

namespace millrace {
namespace {

using bench::BenchGraph;

constexpr float kA = 0.5f, kB = 0.25f, kC = 1.5f;

constexpr int64_t kRow = 64;

Node* Factor(BenchGraph& g, const std::string& name, float value, bool row) {
  if (!row) return g.Scalar(name, value);
  const Tensor values = Tensor::Vector<float>(std::vector<float>(kRow, value));
  return g.Add(name, "Const", {{"dtype", DataType::kFloat}, {"value", values}}, {});
}

std::string Add4(BenchGraph& g, Node* x, bool rows) {
  Node* y = g.Binary("mul", "Mul", x, Factor(g, "a", kA, rows));
  y = g.Binary("add", "Add", y, Factor(g, "b", kB, rows));
  y = g.Unary("relu", "Relu", y);
  return g.Binary("scaled", "Mul", y, Factor(g, "c", kC, rows))->name();
}

std::string Add8(BenchGraph& g, Node* x, bool math) {
  Node* y = g.Binary("mul", "Mul", x, g.Scalar("a", kA));
  y = g.Binary("add", "Add", y, g.Scalar("b", kB));
  y = g.Unary("f1", math ? "Exp" : "Relu", y);
  y = math ? g.Unary("f2", "Log1p", y) : g.Binary("f2", "Mul", y, g.Scalar("c", kC));
  y = g.Binary("sub", "Sub", y, x);
  y = math ? g.Unary("f3", "Tanh", y) : g.Binary("f3", "Maximum", y, g.Scalar("d", kB));
  y = g.Unary("f4", math ? "Sigmoid" : "Square", y);
  return g.Unary("neg", "Neg", y)->name();
}

enum class Chain { k4, kRows4, k8, kMath8 };

void Step(benchmark::State& state, Chain chain, bool fused) {
  const int64_t n = state.range(0);
  BenchGraph g;
  Node* const x = g.Placeholder("x");
  const bool rows = chain == Chain::kRows4;
  const std::string last = chain == Chain::k4 || rows ? Add4(g, x, rows) : Add8(g, x, chain == Chain::kMath8);
  SessionOptions options;
  options.inter_op_parallelism_threads = options.intra_op_parallelism_threads =
      static_cast<int>(state.range(1));
  options.cpu_bfc_limit_bytes = int64_t{1} << 30;  // keeps its memory, so that no case allocates new pages
  for (const PassInfo& pass : OptionalPasses()) {
    if (!fused || std::string_view(pass.name) != "elementwise") options.disabled_passes.insert(pass.name);
  }
  const auto session = NewSession(options);
  bench::CheckOk(session.status());
  bench::CheckOk((*session)->ExtendFrom(g.graph()));
  const Session::CallableHandle handle = bench::MakeCallable(**session, {"x"}, {}, {last});
  const TensorShape shape = rows ? TensorShape({n / kRow, kRow}) : TensorShape({n});
  const std::vector<Tensor> feeds = {Tensor::From<float>(bench::RandomFloats(n), shape)};
  for (int i = 0; i < 3; ++i) bench::RunOrDie(**session, handle, feeds);
  for (auto _ : state) bench::RunOrDie(**session, handle, feeds);
  bench::CountRate(state, "GB/s", static_cast<double>(2 * n) * sizeof(float));
}

// A value within a chain that is also used outside, as by gradients.
void Saved(benchmark::State& state, bool one) {
  const int64_t n = state.range(0);
  BenchGraph g;
  Node* const x = g.Placeholder("x");
  Node* const a = g.Scalar("a", kA);
  Node* const b = g.Scalar("b", kB);
  std::vector<std::string> fetches = {"y:0", "relu:0"};
  if (one) {
    const auto floats = [](size_t count) { return std::vector<DataType>(count, DataType::kFloat); };
    g.Add("one", "_FusedElementwise",
          {{"Tin", floats(3)},
           {"Tout", floats(2)},
           {"ops", std::vector<std::string>{"Mul", "Add", "Relu"}},
           {"types", floats(3)},
           {"operands", std::vector<int64_t>{0, 1, 3, 2, 4}},
           {"results", std::vector<int64_t>{4, 5}}},
          {x, a, b});
    fetches = {"one:0", "one:1"};
  } else {
    g.Unary("relu", "Relu", g.Binary("y", "Add", g.Binary("mul", "Mul", x, a), b));
  }
  SessionOptions options;
  options.inter_op_parallelism_threads = options.intra_op_parallelism_threads =
      static_cast<int>(state.range(1));
  options.cpu_bfc_limit_bytes = int64_t{1} << 30;
  const auto session = NewSession(options);
  bench::CheckOk(session.status());
  bench::CheckOk((*session)->ExtendFrom(g.graph()));
  const Session::CallableHandle handle = bench::MakeCallable(**session, {"x"}, fetches, {});
  const std::vector<Tensor> feeds = {Tensor::From<float>(bench::RandomFloats(n), TensorShape({n}))};
  std::vector<Tensor> outputs;
  for (auto _ : state) {
    outputs.clear();
    bench::RunOrDie(**session, handle, feeds, &outputs);
  }
  bench::CountRate(state, "GB/s", static_cast<double>(3 * n) * sizeof(float));
}

void Loop(benchmark::State& state, Chain chain) {
  const int64_t n = state.range(0);
  const std::vector<float> x = bench::RandomFloats(n);
  std::vector<float> y(x);
  for (auto _ : state) {
    if (chain == Chain::k4) {
      bench::LoopChain4(x.data(), y.data(), n, kA, kB, kC);
    } else {
      bench::LoopChain8(x.data(), y.data(), n, kA, kB, kC);
    }
    benchmark::ClobberMemory();
  }
  bench::CountRate(state, "GB/s", static_cast<double>(2 * n) * sizeof(float));
}

void RegisterCase(const std::string& name, void (*run)(benchmark::State&), int threads) {
  auto* const bench =
      benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int64_t n : {int64_t{1} << 12, int64_t{1} << 16, int64_t{1} << 24}) {
    for (int t = 1; t <= threads; ++t) bench->Args({n, t});
  }
}

template <Chain kChain>
void RegisterChain(const std::string& name) {
  RegisterCase(
      name + "/fused", [](benchmark::State& s) { Step(s, kChain, true); }, 2);
  RegisterCase(
      name + "/separate", [](benchmark::State& s) { Step(s, kChain, false); }, 2);
  if constexpr (kChain == Chain::k4 || kChain == Chain::k8)
    RegisterCase(
        name + "/loop", [](benchmark::State& s) { Loop(s, kChain); }, 1);
}

void RegisterAll() {
  RegisterChain<Chain::k4>("chain4");
  RegisterChain<Chain::kRows4>("rows4");
  RegisterChain<Chain::k8>("chain8");
  RegisterChain<Chain::kMath8>("chain8_math");
  RegisterCase(
      "saved/one", [](benchmark::State& s) { Saved(s, true); }, 1);
  RegisterCase(
      "saved/now", [](benchmark::State& s) { Saved(s, false); }, 1);
  for (const bool fused : {true, false}) {
    const auto add = [fused](const char* name, Chain chain, int64_t n) {
      benchmark::RegisterBenchmark(name, [chain, fused](benchmark::State& s) {
        Step(s, chain, fused);
      })->Args({n, 1});
    };
    add(fused ? "step/fused" : "step/separate", Chain::k8, 1);
    add(fused ? "step_rows/fused" : "step_rows/separate", Chain::kRows4, 2 * kRow);
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  millrace::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
