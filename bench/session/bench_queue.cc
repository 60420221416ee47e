// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of queues. Argument of the first three: threads.
//
//   queue/enqueue_dequeue       a Run that enqueues a fed scalar, and one that dequeues it
//   queue/enqueue_dequeue_ref   the same with a handle that is a reference to a string vector
//   queue/pair_in_a_step        both in one Run, in that order
//   queue/handoff               one thread enqueues while another dequeues, capacity 64: time per element
//   queue/batches/N             N vectors of 1,000 floats in by one Run, out as a matrix by another
#include <benchmark/benchmark.h>

#include <string>
#include <thread>
#include <vector>

#include "bench/bench_graph.h"

namespace millrace {
namespace {

using bench::BenchGraph;

struct QueueBench {
  QueueBench(const std::string& version, const TensorShape& shape, int64_t capacity, int threads) {
    const std::vector<DataType> types{DataType::kFloat};
    Node* q = g.Add("q", "FIFOQueue" + version,
                    {{"component_types", types},
                     {"shapes", std::vector<PartialShape>{PartialShape(shape)}},
                     {"capacity", capacity}},
                    {});
    Node* x = g.Placeholder("x");
    Node* n = g.Add("n", "Placeholder", {{"dtype", DataType::kInt32}, {"shape", PartialShape()}}, {});
    const AttrMap in{{"Tcomponents", types}}, out{{"component_types", types}};
    Node* enqueue = g.Add("enqueue", "QueueEnqueue" + version, in, {q, x});
    g.Add("dequeue", "QueueDequeue" + version, out, {q});
    g.Control(enqueue, g.Add("dequeue_after", "QueueDequeue" + version, out, {q}));
    g.Add("enqueue_many", "QueueEnqueueMany" + version, in, {q, x});
    g.Add("dequeue_many", "QueueDequeueMany" + version, out, {q, n});
    session = bench::MakeSession(g, threads);
  }
  BenchGraph g;
  std::unique_ptr<Session> session;
};

void Pair(benchmark::State& state, const std::string& version) {
  const QueueBench b(version, TensorShape(), 100, static_cast<int>(state.range(0)));
  const auto enqueue = bench::MakeCallable(*b.session, {"x"}, {}, {"enqueue"});
  const auto dequeue = bench::MakeCallable(*b.session, {}, {"dequeue"}, {});
  const std::vector<Tensor> feeds{Tensor::Scalar(2.0f)};
  std::vector<Tensor> out;
  for (auto _ : state) {
    bench::RunOrDie(*b.session, enqueue, feeds);
    bench::RunOrDie(*b.session, dequeue, {}, &out);
  }
}

void PairInAStep(benchmark::State& state) {
  const QueueBench b("V2", TensorShape(), 100, static_cast<int>(state.range(0)));
  const auto both = bench::MakeCallable(*b.session, {"x"}, {"dequeue_after"}, {});
  const std::vector<Tensor> feeds{Tensor::Scalar(2.0f)};
  std::vector<Tensor> out;
  for (auto _ : state) bench::RunOrDie(*b.session, both, feeds, &out);
}

void Handoff(benchmark::State& state) {
  constexpr int64_t kElements = 1000;
  const QueueBench b("V2", TensorShape(), 64, 1);
  const auto enqueue = bench::MakeCallable(*b.session, {"x"}, {}, {"enqueue"});
  const auto dequeue = bench::MakeCallable(*b.session, {}, {"dequeue"}, {});
  const std::vector<Tensor> feeds{Tensor::Scalar(2.0f)};
  for (auto _ : state) {
    std::thread producer([&] {
      for (int64_t i = 0; i < kElements; ++i) bench::RunOrDie(*b.session, enqueue, feeds);
    });
    std::vector<Tensor> out;
    for (int64_t i = 0; i < kElements; ++i) bench::RunOrDie(*b.session, dequeue, {}, &out);
    producer.join();
  }
  state.SetItemsProcessed(state.iterations() * kElements);
}

void Batches(benchmark::State& state) {
  const int64_t n = state.range(0);
  const QueueBench b("V2", TensorShape({1000}), -1, 1);
  const auto enqueue = bench::MakeCallable(*b.session, {"x"}, {}, {"enqueue_many"});
  const auto dequeue = bench::MakeCallable(*b.session, {"n"}, {"dequeue_many"}, {});
  // Half a batch ahead, so that a dequeued batch comes from two buffers and has to be assembled.
  const Tensor half(DataType::kFloat, TensorShape({n / 2, 1000}));
  bench::RunOrDie(*b.session, enqueue, std::vector<Tensor>{half});
  const std::vector<Tensor> in{Tensor(DataType::kFloat, TensorShape({n, 1000}))};
  const std::vector<Tensor> count{Tensor::Scalar(static_cast<int32_t>(n))};
  std::vector<Tensor> out;
  for (auto _ : state) {
    bench::RunOrDie(*b.session, enqueue, in);
    bench::RunOrDie(*b.session, dequeue, count, &out);
  }
  state.SetBytesProcessed(state.iterations() * n * 4000);
}

BENCHMARK_CAPTURE(Pair, resource, "V2")->Name("queue/enqueue_dequeue")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(Pair, ref, "")->Name("queue/enqueue_dequeue_ref")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(PairInAStep)->Name("queue/pair_in_a_step")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(Handoff)->Name("queue/handoff")->UseRealTime();
BENCHMARK(Batches)->Name("queue/batches")->Arg(32)->Arg(256)->UseRealTime();

}  // namespace
}  // namespace millrace
