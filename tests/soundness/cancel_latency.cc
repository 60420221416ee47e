// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// cancel_latency [--tries=100] [--limit_ms=0]: for each operation that waits, and for endless loops, the time
// from the cancellation of its step to the return of Run: by a deadline, by another node's error, and by
// closing the session. Prints the maximum and the mean of the tries; with a limit, the exit status is 1 if
// the overall maximum exceeds it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "graph/function_def_builder.h"
#include "millrace/session.h"
#include "op/attr_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using Names = std::vector<std::string>;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int64_t kWaitMs = 5;  // the step is cancelled after this time

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "cancel_latency: FAILED: %s\n", what.c_str());
  std::exit(1);
}

using Types = std::vector<DataType>;
const Types kOneInt = {DataType::kInt32};
const AttrMap kInts = {{"T", DataType::kInt32}};
AttrMap ConstOf(const Tensor& value) { return {{"dtype", value.dtype()}, {"value", value}}; }
NameAttrList Named(const char* name) { return {name, std::make_shared<const AttrMap>()}; }

// The graph of all cases.
class Cases {
 public:
  struct Case {
    std::string name;
    Names setup;         // targets that are run first, each in a separate step
    std::string target;  // waits endlessly
    // Whether other nodes of the step run meanwhile even if it has one thread.
    bool lets_others_run = true;
  };

  Cases() {
    Node("x", "Const", {}, ConstOf(Tensor::Scalar<int32_t>(7)));
    Node("xs", "Const", {}, ConstOf(Tensor::Vector<int32_t>({1, 2, 3})));
    Node("n", "Const", {}, ConstOf(Tensor::Scalar<int32_t>(3)));
    for (const char* op : {"FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2"}) AddQueue(op);
    AddPriorityQueue();
    AddCoordination();
    AddAccumulators();
    AddReader();
    AddLoops();
    AddDevices();
    // Fails once the gate is opened to end the step.
    AddPlainQueue("gate", DataType::kInt32, 1);
    Node("open", "QueueEnqueueV2", {"gate", "x"}, {{"Tcomponents", kOneInt}});
    Node("gate_value", "QueueDequeueV2", {"gate"}, {{"component_types", kOneInt}});
    Node("no", "Const", {}, ConstOf(Tensor::Scalar(false)));
    Node("fails", "Assert", {"no", "gate_value"}, {{"T", kOneInt}});
  }

  const std::vector<Case>& cases() const { return cases_; }
  const tensorflow::GraphDef& def() const { return def_; }

 private:
  void Node(const std::string& name, const std::string& op, const Names& inputs, const AttrMap& attrs = {},
            const char* device = "") {
    tensorflow::NodeDef* node = def_.add_node();
    node->set_name(name);
    node->set_op(op);
    node->set_device(device);
    for (const std::string& input : inputs) node->add_input(input);
    AttrMapToProto(attrs, node->mutable_attr());
  }
  void Function(const FunctionBuilder& function) {
    if (const Status s = function.Build(def_.mutable_library()->add_function()); !s.ok()) Fail(s.message());
  }
  void Waits(const std::string& name, const std::string& target, const Names& setup = {}) {
    cases_.push_back({name, setup, target});
  }
  static AttrMap Shapes(int n = 1) {
    return {
        {"shapes", std::vector<PartialShape>(static_cast<size_t>(n), PartialShape(std::vector<int64_t>{}))}};
  }
  void AddPlainQueue(const std::string& name, DataType type, int64_t capacity) {
    AttrMap attrs = Shapes();
    attrs.Set("component_types", Types{type});
    attrs.Set("capacity", capacity);
    Node(name, "FIFOQueueV2", {}, attrs);
  }

  void AddQueue(const std::string& op) {
    AttrMap attrs = Shapes();
    attrs.Set("component_types", kOneInt);
    attrs.Set("capacity", int64_t{2});
    Node(op, op, {}, attrs);
    Node(op + "/put", "QueueEnqueueV2", {op, "x"}, {{"Tcomponents", kOneInt}});
    Node(op + "/put_many", "QueueEnqueueManyV2", {op, "xs"}, {{"Tcomponents", kOneInt}});
    Node(op + "/take", "QueueDequeueV2", {op}, {{"component_types", kOneInt}});
    Node(op + "/take_many", "QueueDequeueManyV2", {op, "n"}, {{"component_types", kOneInt}});
    Node(op + "/take_up_to", "QueueDequeueUpToV2", {op, "n"}, {{"component_types", kOneInt}});
    Waits(op + " enqueue", op + "/put", {op + "/put", op + "/put"});
    Waits(op + " enqueue_many", op + "/put_many");
    Waits(op + " dequeue", op + "/take");
    Waits(op + " dequeue_many", op + "/take_many", {op + "/put"});
    Waits(op + " dequeue_up_to", op + "/take_up_to", {op + "/put"});
  }

  void AddPriorityQueue() {
    AttrMap attrs = Shapes();
    attrs.Set("component_types", kOneInt);
    Node("priority", "PriorityQueueV2", {}, attrs);
    Node("priority/take", "QueueDequeueV2", {"priority"},
         {{"component_types", Types{DataType::kInt64, DataType::kInt32}}});
    Waits("PriorityQueueV2 dequeue", "priority/take");
  }

  void AddCoordination() {
    AttrMap barrier = Shapes();
    barrier.Set("component_types", kOneInt);
    Node("barrier", "Barrier", {}, barrier);
    Node("barrier/take", "BarrierTakeMany", {"barrier", "n"}, {{"component_types", kOneInt}});
    Waits("BarrierTakeMany", "barrier/take");
    // The op that creates an area determines its capacity.
    const AttrMap area = {{"dtypes", kOneInt}, {"shared_name", std::string("area")}};
    AttrMap limited = area;
    limited.Set("capacity", int64_t{1});
    Node("area_size", "StageSize", {}, limited);
    Node("stage", "Stage", {"x"}, area);
    Waits("Stage", "stage", {"area_size", "stage"});
    const AttrMap empty = {{"dtypes", kOneInt}, {"shared_name", std::string("empty")}};
    Node("unstage", "Unstage", {}, empty);
    Node("peek", "StagePeek", {"n"}, empty);
    Waits("Unstage", "unstage");
    Waits("StagePeek", "peek");
    Node("mutex", "MutexV2", {});
    Node("lock", "MutexLock", {"mutex"});
    Node("held", "ConsumeMutexLock", {"lock", "^relock"});
    Node("relock", "MutexLock", {"mutex", "^lock"});
    Waits("MutexLock", "held");
  }

  void AddAccumulators() {
    const AttrMap attrs = {{"dtype", DataType::kFloat}, {"shape", PartialShape(std::vector<int64_t>{2})}};
    const AttrMap take = {{"dtype", DataType::kFloat}};
    Node("dense", "ConditionalAccumulator", {}, attrs);
    Node("dense/take", "AccumulatorTakeGradient", {"dense", "n"}, take);
    Node("sparse", "SparseConditionalAccumulator", {}, attrs);
    Node("sparse/take", "SparseAccumulatorTakeGradient", {"sparse", "n"}, take);
    Waits("AccumulatorTakeGradient", "dense/take");
    Waits("SparseAccumulatorTakeGradient", "sparse/take");
  }

  void AddReader() {
    AddPlainQueue("files", DataType::kString, 1);
    Node("reader", "WholeFileReaderV2", {});
    Node("read", "ReaderReadV2", {"reader", "files"});
    Waits("ReaderReadV2", "read");
  }

  void AddLoops() {
    Node("true", "Const", {}, ConstOf(Tensor::Scalar(true)));
    const AttrMap frame = {{"T", DataType::kInt32}, {"frame_name", std::string("loop")}};
    Node("enter", "Enter", {"x"}, frame);
    Node("merge", "Merge", {"enter", "next"}, {{"T", DataType::kInt32}, {"N", int64_t{2}}});
    Node("always", "Enter", {"true"},
         {{"T", DataType::kBool}, {"frame_name", std::string("loop")}, {"is_constant", true}});
    Node("go", "LoopCond", {"always"});
    Node("switch", "Switch", {"merge", "go"}, kInts);
    Node("body", "Identity", {"switch:1"}, kInts);
    Node("next", "NextIteration", {"body"}, kInts);
    Node("exit", "Exit", {"switch"}, kInts);
    Waits("while (true), with frames", "exit");
    Function(FunctionBuilder("Always")
                 .Arg("i: int32")
                 .Ret("go: bool")
                 .Node("t", "Const", {}, ConstOf(Tensor::Scalar(true)))
                 .Return("go", "t:output"));
    Function(FunctionBuilder("Same")
                 .Arg("i: int32")
                 .Ret("next: int32")
                 .Node("id", "Identity", {"i"}, kInts)
                 .Return("next", "id:output"));
    Node("calls", "StatelessWhile", {"x"},
         {{"T", kOneInt}, {"cond", Named("Always")}, {"body", Named("Same")}});
    Waits("while (true), of functions", "calls");
    cases_.back().lets_others_run = false;  // it is one kernel
    AddPlainQueue("nothing", DataType::kInt32, 1);
    Function(FunctionBuilder("Take")
                 .Arg("q: resource")
                 .Ret("y: int32")
                 .Stateful()
                 .NoInline()
                 .Node("take", "QueueDequeueV2", {"q"}, {{"component_types", kOneInt}})
                 .Return("y", "take:components:0"));
    Node("function", "StatefulPartitionedCall", {"nothing"},
         {{"f", Named("Take")}, {"Tin", Types{DataType::kResource}}, {"Tout", kOneInt}});
    Waits("dequeue in a function", "function");
  }

  void AddDevices() {
    AddPlainQueue("here", DataType::kInt32, 1);
    Node("sent", "QueueDequeueV2", {"here"}, {{"component_types", kOneInt}});
    Node("received", "Identity", {"sent"}, kInts, "/cpu:1");
    Waits("_Recv from another device", "received");
  }

  tensorflow::GraphDef def_;
  std::vector<Case> cases_;
};

struct Times {
  double worst_ms = 0;
  double sum_ms = 0;
  int tries = 0;
  void Add(Clock::duration d) {
    const double ms = std::chrono::duration<double, std::milli>(d).count();
    worst_ms = std::max(worst_ms, ms);
    sum_ms += ms;
    ++tries;
  }
};

enum class Way { kDeadline, kError, kClose };

std::unique_ptr<Session> Prepare(const Cases& cases, const Cases::Case& c) {
  SessionOptions options;
  options.device_count["CPU"] = 2;
  options.inter_op_parallelism_threads = 2;
  auto session = NewSession(options);
  if (!session.ok()) Fail(session.status().message());
  Status status = (*session)->Create(cases.def());
  for (const std::string& target : c.setup) {
    if (status.ok()) status = (*session)->Run({}, {}, {target}, nullptr);
  }
  if (!status.ok()) Fail(c.name + ": " + status.message());
  return *std::move(session);
}

Clock::duration TryOnce(Session& session, const Cases::Case& c, Way way) {
  RunOptions options;
  if (way == Way::kDeadline) options.timeout_in_ms = kWaitMs;
  Names targets = {c.target};
  if (way == Way::kError) targets.emplace_back("fails");
  Clock::time_point told = Clock::now() + milliseconds(kWaitMs);
  std::thread teller([&] {
    if (way == Way::kDeadline) return;
    std::this_thread::sleep_until(told);
    told = Clock::now();
    const Status status = way == Way::kClose ? session.Close() : session.Run({}, {}, {"open"}, nullptr);
    if (!status.ok()) Fail(c.name + ": " + status.message());
  });
  const Status status = session.Run(options, {}, {}, targets, nullptr, nullptr);
  const auto returned = Clock::now();
  teller.join();
  const ErrorCode wanted = way == Way::kDeadline ? ErrorCode::kDeadlineExceeded
                           : way == Way::kError  ? ErrorCode::kInvalidArgument
                                                 : ErrorCode::kCancelled;
  if (status.code() != wanted) Fail(c.name + ": ended with: " + status.message());
  return returned - told;
}

// Returns the overall maximum.
double Measure(int tries) {
  const Cases cases;
  double worst = 0;
  std::printf("%-36s %14s %14s %14s   worst (mean) ms of %d tries\n", "waits in", "deadline", "error",
              "close", tries);
  for (const Cases::Case& c : cases.cases()) {
    std::printf("%-36s", c.name.c_str());
    for (const Way way : {Way::kDeadline, Way::kError, Way::kClose}) {
      if (way == Way::kError && !c.lets_others_run) {
        std::printf("%15s", "-");
        continue;
      }
      Times times;
      std::unique_ptr<Session> session;
      for (int i = 0; i < tries; ++i) {
        if (session == nullptr || way == Way::kClose) session = Prepare(cases, c);
        times.Add(TryOnce(*session, c, way));
      }
      std::printf("  %6.2f (%4.2f)", times.worst_ms, times.sum_ms / times.tries);
      std::fflush(stdout);
      worst = std::max(worst, times.worst_ms);
    }
    std::printf("\n");
  }
  std::printf("worst of all: %.2f ms\n", worst);
  return worst;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  int64_t tries = 100;
  int64_t limit_ms = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = millrace::SafeStringToInt64(arg.substr(std::min(arg.size(), arg.find('=') + 1)));
    const bool known =
        number && *number >= 0 && (arg.starts_with("--tries=") || arg.starts_with("--limit_ms="));
    if (!known) {
      std::fprintf(stderr, "Usage: cancel_latency [--tries=100] [--limit_ms=0]\n");
      return 2;
    }
    (arg.starts_with("--tries=") ? tries : limit_ms) = *number;
  }
  const double worst = millrace::Measure(static_cast<int>(tries));
  return limit_ms > 0 && worst > static_cast<double>(limit_ms) ? 1 : 0;
}
