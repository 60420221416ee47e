// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of one Session::Run, and of large graphs. The argument of the first four is the number of threads.
//
//   session_run/noop             one NoOp as target, through a callable
//   session_run/noop_names       the same by names
//   session_run/feed_fetch       fed scalar, one Add, one fetch, through a callable
//   session_run/feed_fetch_names the same by names
//   session_threads/{noop,feed_fetch,chain}/threads:T
//                                T threads run the same callable of one session at the same time; chain is a
//                                chain of 100 Adds. The time is that of all Runs together divided by their
//                                number, so half the time of one thread is perfect on two cores
//   graph_scale/{noop,identity}/N  a chain of N nodes: counters import_ms, first_run_ms, second_run_ms and
//                                peak_mb, the growth of the process beyond the client's own GraphDef; with
//                                the times of the passes in place_ms
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_graph.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using bench::BenchGraph;
using Clock = std::chrono::steady_clock;

struct FeedFetch {
  explicit FeedFetch(int threads) {
    Node* x = g.Placeholder("x");
    g.Binary("y", "Add", x, g.Scalar("one", 1.0f));
    g.NoOp("noop");
    session = bench::MakeSession(g, threads);
  }
  BenchGraph g;
  std::unique_ptr<Session> session;
};

void NoOpCallable(benchmark::State& state) {
  FeedFetch f(static_cast<int>(state.range(0)));
  const auto handle = bench::MakeCallable(*f.session, {}, {}, {"noop"});
  for (auto _ : state) bench::RunOrDie(*f.session, handle, {});
}

void NoOpNames(benchmark::State& state) {
  FeedFetch f(static_cast<int>(state.range(0)));
  for (auto _ : state) bench::CheckOk(f.session->Run({}, {}, {"noop"}, nullptr));
}

void FeedFetchCallable(benchmark::State& state) {
  FeedFetch f(static_cast<int>(state.range(0)));
  const auto handle = bench::MakeCallable(*f.session, {"x"}, {"y"}, {});
  const std::vector<Tensor> feeds{Tensor::Scalar(2.0f)};
  std::vector<Tensor> outputs;
  for (auto _ : state) bench::RunOrDie(*f.session, handle, feeds, &outputs);
}

void FeedFetchNames(benchmark::State& state) {
  FeedFetch f(static_cast<int>(state.range(0)));
  const Session::Feeds feeds{{"x:0", Tensor::Scalar(2.0f)}};
  const std::vector<std::string> fetches{"y:0"};
  std::vector<Tensor> outputs;
  for (auto _ : state) bench::CheckOk(f.session->Run(feeds, fetches, {}, &outputs));
}

// One session for all threads of a case.
class SharedSession {
 public:
  void Run(benchmark::State& state, const std::string& fetch, const std::string& target, bool feed) {
    if (state.thread_index() == 0) {
      BenchGraph g;
      Node* x = g.Placeholder("x");
      Node* one = g.Scalar("one", 1.0f);
      Node* y = g.Binary("y", "Add", x, one);
      for (int i = 0; i < 100; ++i) y = g.Binary(StrCat("chain", i), "Add", y, one);
      g.NoOp("noop");
      session_ = bench::MakeSession(g, 1);
      handle_ =
          bench::MakeCallable(*session_, feed ? std::vector<std::string>{"x"} : std::vector<std::string>{},
                              fetch.empty() ? std::vector<std::string>{} : std::vector<std::string>{fetch},
                              target.empty() ? std::vector<std::string>{} : std::vector<std::string>{target});
    }
    const std::vector<Tensor> feeds(feed ? 1 : 0, Tensor::Scalar(2.0f));
    std::vector<Tensor> outputs;
    // The loop begins when all threads have reached it.
    for (auto _ : state) bench::RunOrDie(*session_, handle_, feeds, &outputs);
  }

 private:
  std::unique_ptr<Session> session_;
  Session::CallableHandle handle_{};
};

void Threads(benchmark::State& state, const std::string& fetch, const std::string& target, bool feed) {
  static SharedSession shared;
  shared.Run(state, fetch, target, feed);
}

int64_t StatusKb(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == field + ":") {
      int64_t kb = 0;
      status >> kb;
      return kb;
    }
  }
  return 0;
}

tensorflow::GraphDef ChainDef(int64_t n, const std::string& op) {
  tensorflow::GraphDef def;
  def.mutable_versions()->set_producer(24);
  for (int64_t i = 0; i < n; ++i) {
    tensorflow::NodeDef* node = def.add_node();
    node->set_name("n" + std::to_string(i));
    if (op == "NoOp") {
      node->set_op("NoOp");
      if (i > 0) node->add_input("^n" + std::to_string(i - 1));
      continue;
    }
    node->set_op(i == 0 ? "Placeholder" : op);
    (*node->mutable_attr())[i == 0 ? "dtype" : "T"].set_type(tensorflow::DT_FLOAT);
    if (i > 0) node->add_input("n" + std::to_string(i - 1));
  }
  return def;
}

double MillisSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void GraphScale(benchmark::State& state, const std::string& op) {
  const int64_t n = state.range(0);
  const tensorflow::GraphDef def = ChainDef(n, op);
  const Session::Feeds feeds =
      op == "NoOp" ? Session::Feeds{} : Session::Feeds{{"n0:0", Tensor::Scalar(1.0f)}};
  const std::string last = "n" + std::to_string(n - 1);
  for (auto _ : state) {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
    const int64_t before_kb = StatusKb("VmRSS");
    SessionOptions options;
    options.inter_op_parallelism_threads = 1;
    options.intra_op_parallelism_threads = 1;
    auto session = NewSession(options);
    bench::CheckOk(session.status());
    auto start = Clock::now();
    bench::CheckOk((*session)->Create(def));
    state.counters["import_ms"] = MillisSince(start);
    std::vector<Tensor> out;
    const auto run = [&] { bench::CheckOk((*session)->Run(feeds, {}, {last}, &out)); };
    start = Clock::now();
    run();
    state.counters["first_run_ms"] = MillisSince(start);
    start = Clock::now();
    run();
    state.counters["second_run_ms"] = MillisSince(start);
    state.counters["peak_mb"] = static_cast<double>(StatusKb("VmHWM") - before_kb) / 1024;
  }
}

BENCHMARK(NoOpCallable)->Name("session_run/noop")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();
BENCHMARK(NoOpNames)->Name("session_run/noop_names")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();
BENCHMARK(FeedFetchCallable)->Name("session_run/feed_fetch")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();
BENCHMARK(FeedFetchNames)->Name("session_run/feed_fetch_names")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(Threads, noop, "", "noop", false)
    ->Name("session_threads/noop")
    ->Threads(1)
    ->Threads(2)
    ->Threads(8)
    ->UseRealTime();
BENCHMARK_CAPTURE(Threads, feed_fetch, "y:0", "", true)
    ->Name("session_threads/feed_fetch")
    ->Threads(1)
    ->Threads(2)
    ->Threads(8)
    ->UseRealTime();
BENCHMARK_CAPTURE(Threads, chain, "chain99:0", "", true)
    ->Name("session_threads/chain")
    ->Threads(1)
    ->Threads(2)
    ->Threads(8)
    ->UseRealTime();
BENCHMARK_CAPTURE(GraphScale, noop, "NoOp")
    ->Name("graph_scale/noop")
    ->Arg(10000)
    ->Arg(100000)
    ->Arg(1000000)
    ->Iterations(1)
    ->UseRealTime();
BENCHMARK_CAPTURE(GraphScale, identity, "Identity")
    ->Name("graph_scale/identity")
    ->Arg(10000)
    ->Arg(100000)
    ->Arg(1000000)
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
}  // namespace millrace
