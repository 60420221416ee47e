// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of loops and conditions. The last argument of a case is the number of threads.
//
// clang-format off
//   while_loop/empty/N        N iterations of a loop over one float: compare, add one (counter ns_per_iteration)
//   while_loop/parallelP/N    8 iterations, P of them at the same time, around a loop of N iterations; the
//                             counter is the time of an inner iteration
//   cond/N                    a chain of N conditions with one node in each branch (counter ns_per_cond)
// clang-format on
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "bench/bench_graph.h"
#include "graph/graph.h"
#include "millrace/session.h"

namespace millrace {
namespace {

using bench::BenchGraph;

const AttrMap kFloat = {{"T", DataType::kFloat}};

Node* Enter(BenchGraph& g, const std::string& frame, const std::string& name, Node* x, bool constant,
            int64_t parallel) {
  AttrMap attrs = kFloat;
  attrs.Set("frame_name", frame);
  attrs.Set("is_constant", constant);
  attrs.Set("parallel_iterations", parallel);
  return g.Add(frame + "/" + name, "Enter", std::move(attrs), {x});
}

// A loop over one float: its nodes between Merge and NextIteration.
struct Loop {
  Loop(BenchGraph& graph, const std::string& frame, Node* start, Node* limit, int64_t parallel) : g(graph) {
    Node* enter = Enter(g, frame, "Enter", start, false, parallel);
    AttrMap merge_attrs = kFloat;
    merge_attrs.Set("N", 2);
    merge = g.Add(frame + "/Merge", "Merge", merge_attrs, {enter});
    Node* less =
        g.Add(frame + "/Less", "Less", kFloat, {merge, Enter(g, frame, "limit", limit, true, parallel)});
    Node* cond = g.Add(frame + "/LoopCond", "LoopCond", {}, {less});
    Node* way = g.Add(frame + "/Switch", "Switch", kFloat, {merge, cond});
    body = g.Add(frame + "/Identity", "Identity", kFloat, {});
    g.Connect(way, 1, body, 0);
    exit = g.Add(frame + "/Exit", "Exit", kFloat, {way});
    name = frame;
  }
  void Close(Node* value) {
    g.Connect(g.Add(name + "/NextIteration", "NextIteration", kFloat, {value}), 0, merge, 1);
  }

  BenchGraph& g;
  std::string name;
  Node* merge = nullptr;
  Node* body = nullptr;
  Node* exit = nullptr;
};

void Measure(benchmark::State& state, const BenchGraph& g, const std::string& target, int threads,
             const char* counter, int64_t count) {
  const std::unique_ptr<Session> session = bench::MakeSession(g, threads);
  const Session::CallableHandle handle = bench::MakeCallable(*session, {}, {}, {target});
  for (int i = 0; i < 8; ++i) bench::RunOrDie(*session, handle, {});
  for (auto _ : state) bench::RunOrDie(*session, handle, {});
  state.counters[counter] = benchmark::Counter(static_cast<double>(state.iterations() * count) * 1e-9,
                                               benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void EmptyLoop(benchmark::State& state) {
  BenchGraph g;
  const int64_t n = state.range(0);
  Node* zero = g.Scalar("zero", 0.0f);
  Loop loop(g, "while", zero, g.Scalar("limit", static_cast<float>(n)), 10);
  Node* one = Enter(g, "while", "one", g.Scalar("one", 1.0f), true, 10);
  loop.Close(g.Binary("while/add", "Add", loop.body, one));
  Measure(state, g, loop.exit->name(), static_cast<int>(state.range(1)), "ns_per_iteration", n);
}

void NestedLoop(benchmark::State& state, int64_t parallel) {
  constexpr int64_t kOuter = 8;
  BenchGraph g;
  const int64_t n = state.range(0);
  Node* zero = g.Scalar("zero", 0.0f);
  Loop outer(g, "outer", zero, g.Scalar("outer_limit", static_cast<float>(kOuter)), parallel);
  Node* one = Enter(g, "outer", "one", g.Scalar("one", 1.0f), true, parallel);
  Node* limit =
      Enter(g, "outer", "inner_limit", g.Scalar("inner_limit", static_cast<float>(n)), true, parallel);
  Node* start = g.Binary("outer/start", "Sub", outer.body, outer.body);
  Loop inner(g, "inner", start, limit, 10);
  inner.Close(g.Binary("inner/add", "Add", inner.body, Enter(g, "inner", "one", one, true, 10)));
  g.Unary("outer/result", "Identity", inner.exit);
  outer.Close(g.Binary("outer/add", "Add", outer.body, one));
  Node* all = g.NoOp("all");
  g.Control(outer.exit, all);
  // The result does not depend on the inner loop, so the loop is a target.
  const std::unique_ptr<Session> session = bench::MakeSession(g, static_cast<int>(state.range(1)));
  const Session::CallableHandle handle = bench::MakeCallable(*session, {}, {}, {"all", "outer/result"});
  for (int i = 0; i < 8; ++i) bench::RunOrDie(*session, handle, {});
  for (auto _ : state) bench::RunOrDie(*session, handle, {});
  state.counters["ns_per_iteration"] =
      benchmark::Counter(static_cast<double>(state.iterations() * n * kOuter) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Cond(benchmark::State& state) {
  BenchGraph g;
  const int64_t n = state.range(0);
  Node* x = g.Unary("read", "Identity", g.Variable("x", 0.5f));
  Node* pred = g.Add("pred", "Less", kFloat, {x, g.Scalar("one", 1.0f)});
  for (int64_t i = 0; i < n; ++i) {
    const std::string prefix = StrCat("cond", i, "/");
    Node* way = g.Add(prefix + "Switch", "Switch", kFloat, {x, pred});
    Node* no = g.Unary(prefix + "false", "Neg", way);
    Node* yes = g.Add(prefix + "true", "Square", kFloat, {});
    g.Connect(way, 1, yes, 0);
    AttrMap attrs = kFloat;
    attrs.Set("N", 2);
    x = g.Add(prefix + "Merge", "Merge", attrs, {no, yes});
  }
  Measure(state, g, x->name(), static_cast<int>(state.range(1)), "ns_per_cond", n);
}

BENCHMARK(EmptyLoop)->Name("while_loop/empty")->Args({1000, 1})->Args({1000, 2})->UseRealTime();
BENCHMARK_CAPTURE(NestedLoop, one, 1)
    ->Name("while_loop/parallel1")
    ->Args({100, 1})
    ->Args({100, 2})
    ->UseRealTime();
BENCHMARK_CAPTURE(NestedLoop, eight, 8)
    ->Name("while_loop/parallel8")
    ->Args({100, 1})
    ->Args({100, 2})
    ->UseRealTime();
BENCHMARK(Cond)->Name("cond")->Args({1, 1})->Args({100, 1})->Args({100, 2})->UseRealTime();

}  // namespace
}  // namespace millrace
