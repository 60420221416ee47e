// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost that the C API adds to that of the engine, on one thread.
//
//   run/{noop,feed_fetch}/{cpp,c}  one Run: by a callable of the C++ session, and by TF_SessionRun, which
//                                  makes and deletes the output tensor, too
//   eager/{add,matmul}             an op from TFE_NewOp to TFE_DeleteOp, with its result: scalars, by 1 to 8
//                                  threads, and products of n x n
//   kernel/matmul                  its baseline: the same kernel alone, which allocates its result
//   matmul_in_turns                both alternately in one loop: the median of the differences of pairs
//   run/matmul/cpp                 the product of 256 x 256 in a Run of a callable
//   user_kernel/{never,may}_block  a Run of a chain of kernels that are written in C and forward their input
//   build/{const,add}              operations per second from TF_NewOperation to TF_FinishOperation: distinct
//                                  scalar constants, and a chain of additions
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "bench/bench_graph.h"
#include "device/device.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/resource.h"
#include "millrace/c/user_op.h"
#include "op/op_registry.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/eager/c_api.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

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

// One op at a time, from its creation to its deletion.
class EagerOp {
 public:
  EagerOp(const char* name, int64_t size) : name_(name) {
    const int64_t dims[] = {size, size};
    const auto count = static_cast<size_t>(size * size);
    TF_Tensor* tensor = TF_AllocateTensor(TF_FLOAT, dims, 2, count * sizeof(float));
    std::fill_n(static_cast<float*>(TF_TensorData(tensor)), count, 0.5f);
    x_ = TFE_NewTensorHandle(tensor, status_);
    Check(status_);
    TF_DeleteTensor(tensor);
  }
  ~EagerOp() {
    TFE_DeleteTensorHandle(x_);
    TF_DeleteStatus(status_);
  }
  EagerOp(const EagerOp&) = delete;
  EagerOp& operator=(const EagerOp&) = delete;
  void Run() {
    TFE_Op* op = TFE_NewOp(context_, name_, status_);
    TFE_OpAddInput(op, x_, status_);
    TFE_OpAddInput(op, x_, status_);
    TFE_TensorHandle* result = nullptr;
    int results = 1;
    TFE_Execute(op, &result, &results, status_);
    TFE_DeleteTensorHandle(result);
    TFE_DeleteOp(op);
  }
  void CheckLast() { Check(status_); }

 private:
  TFE_Context* const context_ = SharedContext();
  TF_Status* const status_ = TF_NewStatus();
  const char* const name_;
  TFE_TensorHandle* x_;
};

// The kernel of an op, called directly.
class KernelAlone {
 public:
  KernelAlone(const char* name, int64_t size)
      : x_(Tensor::From(std::vector<float>(static_cast<size_t>(size * size), 0.5f),
                        TensorShape({size, size}))) {
    DeviceOptions options;
    options.device_count = {{"CPU", 1}};
    options.name_prefix = "/job:localhost/replica:0/task:0";
    DeviceFactoryRegistry factories;
    bench::CheckOk(RegisterCpuDeviceFactory(factories));
    devices_ = *factories.CreateDevices(options);
    Device& device = *devices_->devices().front();
    resources_.emplace(device.name());
    services_.UseDevice(device);
    services_.resources = &*resources_;
    services_.step_resources = &*resources_;
    services_.cancellation = &cancellation_;
    AttrMap attrs;
    attrs.Set("T", DataType::kFloat);
    attrs.Set("transpose_a", false);
    attrs.Set("transpose_b", false);
    KernelConstruction construction("alone", *NodeProps::Make(**OpRegistry::Global().LookUp(name), attrs),
                                    device, *resources_);
    kernel_ = *KernelRegistry::Global().Create("CPU", construction);
    for (TensorValue& in : in_) {
      in.kind = TensorValue::Kind::kConstant;
      in.borrowed = &x_;
    }
  }
  void Run() {
    KernelContext context(services_, kernel_.get(), in_, {&out_, 1});
    bench::CheckOk(kernel_->Compute(context));
    out_.value.Clear();
    out_.kind = TensorValue::Kind::kNone;
  }

 private:
  const Tensor x_;
  std::unique_ptr<DeviceSet> devices_;
  std::optional<ResourceManager> resources_;
  CancellationManager cancellation_;
  StepServices services_;
  std::unique_ptr<OpKernel> kernel_;
  TensorValue in_[2];
  TensorValue out_;
};

void EagerMatMul(benchmark::State& state) {
  EagerOp op("MatMul", state.range(0));
  for (auto _ : state) op.Run();
  op.CheckLast();
}

void KernelMatMul(benchmark::State& state) {
  KernelAlone kernel("MatMul", state.range(0));
  for (auto _ : state) kernel.Run();
}

// The machine's clock and caches change slowly compared to a pair of calls, so that they cancel out in the
// difference of a pair. The spread of the differences shows how reliable the figure is.
void MatMulInTurns(benchmark::State& state) {
  EagerOp op("MatMul", state.range(0));
  KernelAlone kernel("MatMul", state.range(0));
  using Clock = std::chrono::steady_clock;
  std::vector<double> ops, kernels, differences;
  const auto time = [](auto& what) {
    const auto start = Clock::now();
    what.Run();
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  for (auto _ : state) {
    kernels.push_back(time(kernel));
    ops.push_back(time(op));
    differences.push_back(ops.back() - kernels.back());
  }
  op.CheckLast();
  std::sort(ops.begin(), ops.end());
  std::sort(kernels.begin(), kernels.end());
  std::sort(differences.begin(), differences.end());
  const size_t n = differences.size();
  state.counters["more_ns_low_quartile"] = differences[n / 4];
  state.counters["more_ns_median"] = differences[n / 2];
  state.counters["more_ns_high_quartile"] = differences[n * 3 / 4];
  state.counters["more_ns_of_fastest_tenths"] = ops[n / 20] - kernels[n / 20];
}

void Forward(void* /*kernel*/, TF_OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* x = nullptr;
  TF_GetInput(context, 0, &x, status);
  TF_SetOutput(context, 0, x, status);
  TF_DeleteTensor(x);
  TF_DeleteStatus(status);
}

void RegisterForward(const char* name, bool may_block) {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(name);
  TF_OpDefinitionBuilderAddAttr(op, "T: {float}");
  TF_OpDefinitionBuilderAddInput(op, "x: T");
  TF_OpDefinitionBuilderAddOutput(op, "y: T");
  TF_OpDefinitionBuilderSetIsStateful(op, true);
  TF_RegisterOpDefinition(op, status);
  TF_KernelBuilder* kernel = TF_NewKernelBuilder(name, "CPU", nullptr, Forward, nullptr);
  Millrace_KernelBuilderMayBlock(kernel, may_block ? 1 : 0);
  TF_RegisterKernelBuilder(name, kernel, status);
  Check(status);
  TF_DeleteStatus(status);
}

// `range(0)` calls in sequence, in `range(1)` chains.
void UserKernels(benchmark::State& state, bool may_block) {
  static const bool registered = [] {
    RegisterForward("BenchMayBlock", true);
    RegisterForward("BenchNeverBlocks", false);
    return true;
  }();
  benchmark::DoNotOptimize(registered);
  BenchGraph g;
  Node* const x = g.Placeholder("x");
  std::vector<std::string> ends;
  for (int64_t chain = 0; chain < state.range(1); ++chain) {
    Node* last = x;
    for (int64_t i = 0; i < state.range(0); ++i) {
      ends.push_back("n" + std::to_string(chain) + "_" + std::to_string(i));
      last = g.Unary(ends.back(), may_block ? "BenchMayBlock" : "BenchNeverBlocks", last);
      if (i > 0) ends.erase(ends.end() - 2);
    }
  }
  const std::unique_ptr<Session> session = bench::MakeSession(g, 1);
  const auto handle = bench::MakeCallable(*session, {"x"}, {}, ends);
  const std::vector<Tensor> feeds{Tensor::Scalar(1.0f)};
  for (auto _ : state) bench::CheckOk(session->RunCallable(handle, feeds, nullptr, nullptr));
  state.SetItemsProcessed(state.iterations() * state.range(0) * state.range(1));
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
BENCHMARK(EagerMatMul)->Name("eager/matmul")->Arg(2)->Arg(16)->Arg(64)->Arg(256);
BENCHMARK(KernelMatMul)->Name("kernel/matmul")->Arg(2)->Arg(16)->Arg(64)->Arg(256);
BENCHMARK(MatMulInTurns)->Name("matmul_in_turns")->Arg(2)->Arg(16)->Arg(64)->Arg(256)->Iterations(5000);
BENCHMARK_CAPTURE(UserKernels, never, false)
    ->Name("user_kernel/never_block")
    ->Args({1, 1})
    ->Args({100, 1})
    ->Args({1, 8});
BENCHMARK_CAPTURE(UserKernels, may, true)
    ->Name("user_kernel/may_block")
    ->Args({1, 1})
    ->Args({100, 1})
    ->Args({1, 8});
BENCHMARK_CAPTURE(Build, const, false)->Name("build/const")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Build, add, true)->Name("build/add")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace
