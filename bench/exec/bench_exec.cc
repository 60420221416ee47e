// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of the executor per node. Each case runs one step of a graph of N nodes through a callable; the
// counter ns_per_node is the time of the step divided by N. The second argument of a case is the number of
// threads.
//
//   chain/N         N scalar float Adds, each adding a constant to the one before
//   fanout/N        N scalar float Adds of one fed value, all fetched by one control edge each
//   diamond/N       layers of 1 -> 8 -> 1 scalar Adds, N nodes in all
//   noop_chain/N    N NoOps joined by control edges
//   while_loop/…, cond/…: bench_control_flow.cc
//   plain_chain/N   the lower bound: the same additions in a C++ loop through a function pointer
//
// Baselines on one machine are in bench/README.md.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/bench_graph.h"
#include "graph/graph.h"
#include "millrace/session.h"

namespace millrace {
namespace {

using bench::BenchGraph;

void RunTarget(benchmark::State& state, const BenchGraph& graph, const std::string& target, int64_t nodes) {
  const std::unique_ptr<Session> session = bench::MakeSession(graph, static_cast<int>(state.range(1)));
  const Session::CallableHandle handle = bench::MakeCallable(*session, {}, {}, {target});
  for (int i = 0; i < 8; ++i) bench::RunOrDie(*session, handle, {});
  for (auto _ : state) bench::RunOrDie(*session, handle, {});
  state.counters["ns_per_node"] =
      benchmark::Counter(static_cast<double>(state.iterations() * nodes) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Chain(benchmark::State& state) {
  BenchGraph g;
  const int64_t n = state.range(0);
  Node* one = g.Scalar("one", 1.0f);
  Node* x = g.Variable("x", 0.5f);
  Node* last = g.Unary("read", "Identity", x);
  for (int64_t i = 0; i < n; ++i) last = g.Binary(StrCat("add", i), "Add", last, one);
  RunTarget(state, g, last->name(), n);
}

void Fanout(benchmark::State& state) {
  BenchGraph g;
  const int64_t n = state.range(0);
  Node* one = g.Scalar("one", 1.0f);
  Node* x = g.Variable("x", 0.5f);
  Node* read = g.Unary("read", "Identity", x);
  Node* all = g.NoOp("all");
  for (int64_t i = 0; i < n; ++i) g.Control(g.Binary(StrCat("add", i), "Add", read, one), all);
  RunTarget(state, g, "all", n);
}

void Diamond(benchmark::State& state) {
  BenchGraph g;
  constexpr int kWidth = 8;
  const int64_t n = state.range(0);
  Node* one = g.Scalar("one", 1.0f);
  Node* x = g.Variable("x", 0.5f);
  Node* last = g.Unary("read", "Identity", x);
  int64_t made = 0;
  for (int layer = 0; made < n; ++layer) {
    std::vector<Node*> middle;
    for (int i = 0; i < kWidth; ++i) middle.push_back(g.Binary(StrCat("m", layer, "_", i), "Add", last, one));
    last = middle[0];
    for (int i = 1; i < kWidth; ++i) last = g.Binary(StrCat("j", layer, "_", i), "Add", last, middle[i]);
    made += 2 * kWidth - 1;
  }
  RunTarget(state, g, last->name(), made);
}

void NoOpChain(benchmark::State& state) {
  BenchGraph g;
  const int64_t n = state.range(0);
  Node* last = g.NoOp("noop0");
  for (int64_t i = 1; i < n; ++i) {
    Node* next = g.NoOp(StrCat("noop", i));
    g.Control(last, next);
    last = next;
  }
  RunTarget(state, g, last->name(), n);
}

float AddOne(float x) { return x + 1.0f; }

void PlainChain(benchmark::State& state) {
  const int64_t n = state.range(0);
  std::vector<float (*)(float)> program(n, AddOne);
  for (auto _ : state) {
    float x = 0.5f;
    for (auto* f : program) x = f(x);
    benchmark::DoNotOptimize(x);
  }
  state.counters["ns_per_node"] =
      benchmark::Counter(static_cast<double>(state.iterations() * n) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(Chain)->Name("chain")->Args({1000, 1})->Args({1000, 2})->UseRealTime();
BENCHMARK(Fanout)->Name("fanout")->Args({1000, 1})->Args({1000, 2})->UseRealTime();
BENCHMARK(Diamond)->Name("diamond")->Args({1000, 1})->Args({1000, 2})->UseRealTime();
BENCHMARK(NoOpChain)->Name("noop_chain")->Args({1000, 1})->Args({1000, 2})->UseRealTime();
BENCHMARK(PlainChain)->Name("plain_chain")->Arg(1000)->UseRealTime();

}  // namespace
}  // namespace millrace
