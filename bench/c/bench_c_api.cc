// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of the C API over that of the engine, on one thread.
//
//   run/{noop,feed_fetch}/{cpp,c}  one Run: by a callable of the C++ session, and by TF_SessionRun, which
//                                  makes and deletes the output tensor, too
//   eager/{add,matmul}             an op from TFE_NewOp to TFE_DeleteOp, with its result: scalars, by 1 to 8
//                                  threads, and a product of 256 x 256
//   run/matmul/cpp                 its rival: the same product in a Run of a callable
//   build/{const,add}              operations per second from TF_NewOperation to TF_FinishOperation: distinct
//                                  scalar constants, and a chain of additions
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_graph.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/eager/c_api.h"

namespace millrace {
namespace {

using bench::BenchGraph;

void Check(TF_Status* status) {
  if (TF_GetCode(status) == TF_OK) return;
  std::fprintf(stderr, "%s\n", TF_Message(status));
  std::abort();
}

TF_Tensor* Scalar(float value) {
  TF_Tensor* tensor = TF_AllocateTensor(TF_FLOAT, nullptr, 0, sizeof(float));
  *static_cast<float*>(TF_TensorData(tensor)) = value;
  return tensor;
}

TF_Output Const(TF_Graph* graph, const char* name, TF_Tensor* value, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "Const", name);
  TF_SetAttrTensor(desc, "value", value, status);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  return {TF_FinishOperation(desc, status), 0};
}

TF_Output Add(TF_Graph* graph, const char* name, TF_Output x, TF_Output y, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "Add", name);
  TF_AddInput(desc, x);
  TF_AddInput(desc, y);
  return {TF_FinishOperation(desc, status), 0};
}

void RunCpp(benchmark::State& state, bool feed) {
  BenchGraph g;
  g.Binary("y", "Add", g.Placeholder("x"), g.Scalar("one", 1.0f));
  g.NoOp("noop");
  const std::unique_ptr<Session> session = bench::MakeSession(g, 1);
  using Names = std::vector<std::string>;
  const auto handle = feed ? bench::MakeCallable(*session, {"x"}, {"y"}, {})
                           : bench::MakeCallable(*session, Names{}, Names{}, {"noop"});
  const std::vector<Tensor> feeds = feed ? std::vector<Tensor>{Tensor::Scalar(2.0f)} : std::vector<Tensor>{};
  for (auto _ : state) {
    std::vector<Tensor> fetched;
    bench::CheckOk(session->RunCallable(handle, feeds, &fetched, nullptr));
    benchmark::DoNotOptimize(fetched);
  }
}

void RunMatMul(benchmark::State& state) {
  BenchGraph g;
  Node* const x = g.Placeholder("x");
  g.Binary("y", "MatMul", x, x);
  const std::unique_ptr<Session> session = bench::MakeSession(g, 1);
  const auto handle = bench::MakeCallable(*session, {"x"}, {"y"}, {});
  const std::vector<Tensor> feeds{Tensor::From(std::vector<float>(256 * 256, 0.5f), TensorShape({256, 256}))};
  for (auto _ : state) {
    std::vector<Tensor> fetched;
    bench::CheckOk(session->RunCallable(handle, feeds, &fetched, nullptr));
    benchmark::DoNotOptimize(fetched);
  }
}

void RunC(benchmark::State& state, bool feed) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_OperationDescription* desc = TF_NewOperation(graph, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  const TF_Output x = {TF_FinishOperation(desc, status), 0};
  TF_Tensor* value = Scalar(1.0f);
  const TF_Output y = Add(graph, "y", x, Const(graph, "one", value, status), status);
  const TF_Operation* noop = TF_FinishOperation(TF_NewOperation(graph, "NoOp", "noop"), status);
  Check(status);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_SetConfig(options, "\x10\x01\x28\x01", 4, status);  // one thread within ops, one between them
  TF_Session* session = TF_NewSession(graph, options, status);
  Check(status);
  for (auto _ : state) {
    TF_Tensor* output = nullptr;
    if (feed) {
      TF_SessionRun(session, nullptr, &x, &value, 1, &y, &output, 1, nullptr, 0, nullptr, status);
    } else {
      TF_SessionRun(session, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, &noop, 1, nullptr, status);
    }
    TF_DeleteTensor(output);
  }
  Check(status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteTensor(value);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

TFE_Context* SharedContext() {
  static TFE_Context* const context = [] {
    TF_Status* status = TF_NewStatus();
    TFE_ContextOptions* options = TFE_NewContextOptions();
    TFE_ContextOptionsSetConfig(options, "\x10\x01\x28\x01", 4, status);  // one thread within ops
    TFE_Context* made = TFE_NewContext(options, status);
    Check(status);
    TFE_DeleteContextOptions(options);
    TF_DeleteStatus(status);
    return made;
  }();
  return context;
}

void Eager(benchmark::State& state, const char* name, int64_t size) {
  TFE_Context* const context = SharedContext();
  TF_Status* status = TF_NewStatus();
  const int64_t dims[] = {size, size};
  const auto count = static_cast<size_t>(size * size);
  TF_Tensor* tensor = TF_AllocateTensor(TF_FLOAT, dims, size == 1 ? 0 : 2, count * sizeof(float));
  std::fill_n(static_cast<float*>(TF_TensorData(tensor)), count, 0.5f);
  TFE_TensorHandle* x = TFE_NewTensorHandle(tensor, status);
  Check(status);
  for (auto _ : state) {
    TFE_Op* op = TFE_NewOp(context, name, status);
    TFE_OpAddInput(op, x, status);
    TFE_OpAddInput(op, x, status);
    TFE_TensorHandle* result = nullptr;
    int results = 1;
    TFE_Execute(op, &result, &results, status);
    TFE_DeleteTensorHandle(result);
    TFE_DeleteOp(op);
  }
  Check(status);
  state.SetItemsProcessed(state.iterations());
  TFE_DeleteTensorHandle(x);
  TF_DeleteTensor(tensor);
  TF_DeleteStatus(status);
}

void Build(benchmark::State& state, bool add) {
  constexpr int kNodes = 100'000;
  std::vector<std::string> names;
  for (int i = 0; i < kNodes; ++i) names.push_back("node_" + std::to_string(i));
  TF_Status* status = TF_NewStatus();
  TF_Tensor* value = Scalar(1.0f);
  for (auto _ : state) {
    TF_Graph* graph = TF_NewGraph();
    TF_Output last = Const(graph, "first", value, status);
    for (int i = 0; i < kNodes; ++i) {
      if (add) {
        last = Add(graph, names[i].c_str(), last, last, status);
      } else {
        *static_cast<float*>(TF_TensorData(value)) = static_cast<float>(i);
        last = Const(graph, names[i].c_str(), value, status);
      }
    }
    Check(status);
    state.PauseTiming();
    TF_DeleteGraph(graph);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kNodes);
  TF_DeleteTensor(value);
  TF_DeleteStatus(status);
}

BENCHMARK_CAPTURE(RunCpp, noop, false)->Name("run/noop/cpp");
BENCHMARK_CAPTURE(RunC, noop, false)->Name("run/noop/c");
BENCHMARK_CAPTURE(RunCpp, feed_fetch, true)->Name("run/feed_fetch/cpp");
BENCHMARK_CAPTURE(RunC, feed_fetch, true)->Name("run/feed_fetch/c");
BENCHMARK(RunMatMul)->Name("run/matmul/cpp");
BENCHMARK_CAPTURE(Eager, add, "Add", 1)->Name("eager/add")->ThreadRange(1, 8)->UseRealTime();
BENCHMARK_CAPTURE(Eager, matmul, "MatMul", 256)->Name("eager/matmul");
BENCHMARK_CAPTURE(Build, const, false)->Name("build/const")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Build, add, true)->Name("build/add")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace
