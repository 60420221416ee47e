// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "base/notification.h"
#include "device/device.h"
#include "exec/executor.h"
#include "kernel/resource.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Ops of the test: their kernels are the lambdas below.
void RegisterTestOps(OpRegistry& ops) {
  ASSERT_TRUE(ops.Register(OpBuilder("NoOp")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Value").Output("y: float").Attr("v: float")).ok());
  ASSERT_TRUE(
      ops.Register(OpBuilder("Sum").Input("x: N * float").Output("y: float").Attr("N: int >= 1")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Two").Input("x: float").Output("a: float").Output("b: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Later").Input("x: float").Output("y: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Never").Output("y: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Gate").Output("y: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("TryingGate").Output("y: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Fail").Input("x: float").Output("y: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Forget").Output("y: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Hungry").Output("y: float").Attr("how: string")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Sink").Input("x: float").Attr("index: int")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Fixed").Output("y: float").Attr("v: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Enter")
                               .Input("x: float")
                               .Output("y: float")
                               .Attr("frame_name: string")
                               .Attr("is_constant: bool = false")
                               .Attr("parallel_iterations: int = 10")
                               .Traits({.is_control_flow = true}))
                  .ok());
  ASSERT_TRUE(
      ops.Register(OpBuilder("Exit").Input("x: float").Output("y: float").Traits({.is_control_flow = true}))
          .ok());
  ASSERT_TRUE(ops.Register(OpBuilder("State").Output("ref: Ref(float)")).ok());
}

using Body = std::function<Status(KernelContext&)>;

class LambdaKernel : public OpKernel {
 public:
  LambdaKernel(KernelConstruction& c, Body body) : OpKernel(c), body_(std::move(body)) {}
  Status Compute(KernelContext& context) override { return body_(context); }

 private:
  const Body body_;
};

// A constant, which the plan puts into the slots of its consumers.
class FixedKernel : public OpKernel {
 public:
  FixedKernel(KernelConstruction& c, float v) : OpKernel(c), value_(Tensor::Scalar(v)) {}
  Status Compute(KernelContext& context) override {
    context.set_output(0, value_);
    return Status();
  }
  const Tensor* ConstantOutput() const override { return &value_; }

 private:
  const Tensor value_;
};

class LaterKernel : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  ~LaterKernel() override {
    for (std::thread& t : threads_) t.join();
  }
  void ComputeAsync(KernelContext& context, Done done) override {
    context.set_output(0, context.input(0));
    MutexLock lock(mu_);
    threads_.emplace_back([d = std::move(done)]() mutable { d(Status()); });
  }

 private:
  Mutex mu_;
  std::vector<std::thread> threads_ MR_GUARDED_BY(mu_);
};

// Ends only when the step is cancelled.
class NeverKernel : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(KernelContext& context, Done done) override {
    auto shared = std::make_shared<Done>(std::move(done));
    const auto token = context.cancellation().Register([shared] { (*shared)(errors::Cancelled("woken")); });
    if (token == CancellationManager::kInvalidToken) (*shared)(errors::Cancelled("too late"));
  }
};

// Waits until it is opened; the second kind only reports that after a try.
class GateKernel : public AsyncOpKernel {
 public:
  GateKernel(KernelConstruction& c, GateKernel** waiting)
      : AsyncOpKernel(c), tries_(op_name() == "TryingGate"), waiting_(waiting) {}
  bool tries() const override { return tries_; }
  void ComputeAsync(KernelContext& context, Done done) override {
    context_ = &context;
    done_ = std::move(done);
    *waiting_ = this;
  }
  void Open(float value) {
    context_->set_output(0, Tensor::Scalar(value));
    std::exchange(done_, Done())(Status());
  }

 private:
  const bool tries_;
  GateKernel** const waiting_;
  KernelContext* context_ = nullptr;
  Done done_;
};

// Runs out of host memory: in TryCompute ("try"), in ComputeAsync ("async"), or drops its callback ("drop").
class HungryKernel : public AsyncOpKernel {
 public:
  HungryKernel(KernelConstruction& c, std::string how) : AsyncOpKernel(c), how_(std::move(how)) {}
  bool tries() const override { return how_ == "try"; }
  bool TryCompute(KernelContext&, Status&) override { throw std::bad_alloc(); }
  void ComputeAsync(KernelContext&, Done done) override {
    const Done mine = std::move(done);
    if (how_ == "async") throw std::bad_alloc();
  }

 private:
  const std::string how_;
};

Status SumInputs(KernelContext& c) {
  MR_ASSIGN_OR_RETURN(Tensor * out, c.ForwardInputOrAllocateOutput({0}, 0, TensorShape()));
  float sum = 0;
  for (int i = 0; i < c.num_inputs(); ++i) sum += c.input(i).scalar<float>();
  out->scalar<float>() = sum;
  return Status();
}

class ExecTest : public ::testing::Test {
 protected:
  ExecTest() : graph_(std::make_unique<Graph>(InitOps(ops_))), resources_("cpu") {
    DeviceFactoryRegistry factories;
    EXPECT_TRUE(RegisterCpuDeviceFactory(factories).ok());
    devices_ = *factories.CreateDevices({});
    device_ = devices_->client_device();
  }

  static OpRegistry& InitOps(OpRegistry& ops) {
    RegisterTestOps(ops);
    return ops;
  }

  Node* Add(const std::string& name, const std::string& op, std::vector<Node*> inputs, AttrMap attrs = {}) {
    if (op == "Sum") attrs.Set("N", static_cast<int64_t>(inputs.size()));
    auto node = graph_->AddNode(name, op, std::move(attrs));
    EXPECT_TRUE(node.ok()) << node.status();
    for (size_t i = 0; i < inputs.size(); ++i) graph_->AddEdge(inputs[i], 0, *node, static_cast<int>(i));
    return *node;
  }
  Node* Value(const std::string& name, float v) { return Add(name, "Value", {}, {{"v", v}}); }
  void Fetch(Node* node, int index, int output = 0) {
    auto sink = graph_->AddNode(StrCat("sink", index), "Sink", {{"index", index}});
    graph_->AddEdge(node, output, *sink, 0);
    results_.resize(std::max<size_t>(results_.size(), index + 1), Tensor::Scalar(NAN));
  }

  StatusOr<std::shared_ptr<OpKernel>> MakeKernel(const Node& node) {
    KernelConstruction c(node.name(), node.shared_props(), *device_, resources_);
    const std::string& op = node.op_name();
    if (op == "Later") return std::shared_ptr<OpKernel>(new LaterKernel(c));
    if (op == "Fixed") return std::shared_ptr<OpKernel>(new FixedKernel(c, *node.Attr<float>("v")));
    if (op.ends_with("Gate")) return std::shared_ptr<OpKernel>(new GateKernel(c, &gate_));
    if (op == "Hungry" && *node.Attr<std::string>("how") != "sync") {
      return std::shared_ptr<OpKernel>(new HungryKernel(c, *node.Attr<std::string>("how")));
    }
    if (op == "Never") return std::shared_ptr<OpKernel>(new NeverKernel(c));
    Body body;
    if (op == "Value") {
      const float v = *node.Attr<float>("v");
      body = [v](KernelContext& k) {
        k.set_output(0, Tensor::Scalar(v));
        return Status();
      };
    } else if (op == "Sum" || op == "Enter" || op == "Exit") {
      body = SumInputs;  // the sum of one input is that input
    } else if (op == "Two") {
      body = [](KernelContext& k) {
        k.set_output(0, Tensor::Scalar(k.input(0).scalar<float>() * 2));
        k.set_output(1, Tensor::Scalar(k.input(0).scalar<float>() * 3));
        return Status();
      };
    } else if (op == "Fail") {
      body = [](KernelContext&) { return errors::InvalidArgument("out of luck"); };
    } else if (op == "Hungry") {
      body = [](KernelContext&) -> Status { throw std::bad_alloc(); };
    } else if (op == "Forget") {
      body = [](KernelContext&) { return Status(); };
    } else if (op == "Sink") {
      const auto index = *node.Attr<int64_t>("index");
      body = [this, index](KernelContext& k) {
        results_[index] = k.input(0);
        return Status();
      };
    } else if (op == "State") {
      body = [this](KernelContext& k) {
        k.set_output_ref(0, &variable_.mu(), &variable_.tensor());
        return Status();
      };
    }
    return std::shared_ptr<OpKernel>(new LambdaKernel(c, std::move(body)));
  }

  void Build() {
    graph_->FixupSourceAndSinkEdges();
    auto plan = Plan::Build(std::move(graph_), *device_, [this](const Node& n) { return MakeKernel(n); });
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
  }

  // `counting` forces the walker that counts down, otherwise the executor chooses.
  Status Run(bool counting, int threads = 1, CancellationManager* cancellation = nullptr) {
    CancellationManager own;
    std::unique_ptr<ThreadPool> pool;
    if (threads > 1) pool = std::make_unique<ThreadPool>("test", threads);
    PartitionRun run;
    run.plan = plan_.get();
    run.services.UseDevice(*device_);
    run.services.resources = &resources_;
    run.services.cancellation = cancellation != nullptr ? cancellation : &own;
    return counting ? RunByCounting({&run, 1}, pool.get()) : RunPartitions({&run, 1}, pool.get());
  }

  float Result(int i) const { return results_[i].scalar<float>(); }

  OpRegistry ops_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<DeviceSet> devices_;
  Device* device_ = nullptr;
  ResourceManager resources_;
  Variable variable_{DataType::kFloat};
  std::unique_ptr<Plan> plan_;
  std::vector<Tensor> results_;
  GateKernel* gate_ = nullptr;  // the waiting one
};

TEST_F(ExecTest, OutputsReachEveryConsumerAndInPlaceResultsDisturbNone) {
  Node* x = Value("x", 1);
  Node* two = Add("two", "Two", {x});
  Node* s1 = Add("s1", "Sum", {two, x});
  Node* s2 = Add("s2", "Sum", {two, two});
  Fetch(s1, 0);
  Fetch(s2, 1);
  Fetch(two, 2, 0);
  Fetch(two, 3, 1);
  Build();
  for (const bool counting : {false, true}) {
    for (const int threads : {1, 2, 4}) {
      ASSERT_TRUE(Run(counting, threads).ok());
      EXPECT_EQ(Result(0), 3);
      EXPECT_EQ(Result(1), 4);
      EXPECT_EQ(Result(2), 2);
      EXPECT_EQ(Result(3), 3);
    }
  }
}

// A random graph, compared with sums that are computed while it is built.
TEST_F(ExecTest, RandomGraphsGiveTheSameValuesOnBothWalkers) {
  std::mt19937 rng(7);
  std::vector<Node*> nodes{Value("v0", 1)};
  std::vector<double> expected{1};
  for (int i = 1; i < 400; ++i) {
    std::vector<Node*> inputs;
    double sum = 0;
    const int n = 1 + static_cast<int>(rng() % 3);
    for (int k = 0; k < n; ++k) {
      const size_t pick = nodes.size() - 1 - rng() % std::min<size_t>(nodes.size(), 8);
      if (expected[pick] > 1e5) continue;
      inputs.push_back(nodes[pick]);
      sum += expected[pick];
    }
    if (inputs.empty()) {
      inputs.push_back(nodes[0]);
      sum = 1;
    }
    nodes.push_back(Add(StrCat("n", i), rng() % 9 == 0 && inputs.size() == 1 ? "Later" : "Sum", inputs));
    expected.push_back(sum);
  }
  for (size_t i = 0; i < nodes.size(); i += 7) Fetch(nodes[i], static_cast<int>(i / 7));
  Build();
  for (const int threads : {1, 2, 3}) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      ASSERT_TRUE(Run(true, threads).ok());
      for (size_t i = 0; i < nodes.size(); i += 7)
        ASSERT_EQ(Result(static_cast<int>(i / 7)), expected[i]) << i;
    }
  }
}

TEST_F(ExecTest, ControlEdgesOrderNodesAndNoOpsPassThem) {
  Node* a = Add("a", "Sum", {Value("x", 1)});
  Node* gate = Add("gate", "NoOp", {});
  graph_->AddControlEdge(a, gate);
  Node* b = Value("b", 5);
  graph_->AddControlEdge(gate, b);
  Fetch(b, 0);
  Build();
  ASSERT_TRUE(Run(false).ok());
  ASSERT_TRUE(Run(true).ok());
  EXPECT_EQ(Result(0), 5);
}

TEST_F(ExecTest, ErrorNamesNodeAndOpAndTheNextStepStartsClean) {
  Node* x = Value("x", 1);
  Fetch(Add("bad", "Fail", {Add("s", "Sum", {x, x})}), 0);
  Build();
  for (const bool counting : {false, true, false}) {
    for (const int threads : {1, 2}) {
      const Status s = Run(counting, threads);
      EXPECT_EQ(s.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(s.message(), HasSubstr("out of luck"));
      EXPECT_THAT(s.message(), HasSubstr("[[{{node bad}}]]"));
    }
  }
}

TEST_F(ExecTest, KernelsWithoutHostMemoryEndTheStepOnly) {
  const std::string how = "sync";
  Fetch(Add("hungry", "Hungry", {}, {{"how", how}}), 0);
  Build();
  for (const bool counting : {false, true}) {
    for (const int threads : {1, 2}) {
      const Status s = Run(counting, threads);
      EXPECT_EQ(s.code(), ErrorCode::kResourceExhausted);
      EXPECT_THAT(s.message(), HasSubstr("OOM when running Hungry 'hungry': the host has no memory left"));
    }
  }
}

TEST_F(ExecTest, AsynchronousKernelsWithoutHostMemoryEndTheStepOnly) {
  for (const std::string how : {"try", "async"}) {
    graph_ = std::make_unique<Graph>(ops_);
    Fetch(Add("hungry", "Hungry", {}, {{"how", how}}), 0);
    Build();
    for (const bool counting : {false, true}) {
      for (const int threads : {1, 2}) {
        EXPECT_EQ(Run(counting, threads).code(), ErrorCode::kResourceExhausted) << how;
      }
    }
  }
}

TEST_F(ExecTest, DroppedCompletionIsAnErrorOfTheNode) {
  const std::string how = "drop";
  Fetch(Add("hungry", "Hungry", {}, {{"how", how}}), 0);
  Build();
  const Status s = Run(true);
  EXPECT_EQ(s.code(), ErrorCode::kInternal);
  EXPECT_THAT(s.message(), HasSubstr("destroyed its completion callback without calling it"));
  EXPECT_THAT(s.message(), HasSubstr("{{node hungry}}"));
}

TEST_F(ExecTest, MissingOutputIsAnErrorOfTheNode) {
  Fetch(Add("f", "Forget", {}), 0);
  Build();
  for (const bool counting : {false, true}) {
    EXPECT_THAT(Run(counting).message(), HasSubstr("Missing 0-th output from node 'f'"));
  }
}

TEST_F(ExecTest, FailureWakesAsynchronousKernels) {
  Fetch(Add("never", "Never", {}), 0);
  Fetch(Add("bad", "Fail", {Value("x", 1)}), 1);
  Build();
  for (const int threads : {1, 2}) EXPECT_THAT(Run(false, threads).message(), HasSubstr("out of luck"));
}

TEST_F(ExecTest, CancellingEndsAStepThatWaits) {
  Fetch(Add("never", "Never", {}), 0);
  Build();
  for (const int threads : {1, 2}) {
    CancellationManager cancellation;
    std::jthread other([&] { cancellation.StartCancel(); });
    EXPECT_TRUE(errors::IsCancelled(Run(false, threads, &cancellation)));
  }
}

TEST_F(ExecTest, CancelledBeforeTheStartRunsNothing) {
  Fetch(Value("x", 1), 0);
  Build();
  CancellationManager cancellation;
  cancellation.StartCancel();
  EXPECT_TRUE(errors::IsCancelled(Run(false, 1, &cancellation)));
  EXPECT_TRUE(errors::IsCancelled(Run(true, 1, &cancellation)));
  EXPECT_TRUE(std::isnan(Result(0)));
}

// Its slots belong to its frames, which do not exist yet.
TEST_F(ExecTest, AStepWithFramesThatIsCancelledBeforeTheStartRunsNothing) {
  Node* entered = Add("enter", "Enter", {Value("x", 3)}, {{"frame_name", "loop"}});
  Node* left = Add("exit", "Exit", {entered});
  Fetch(Add("sum", "Sum", {left, Add("fixed", "Fixed", {}, {{"v", 4.0f}})}), 0);
  Build();
  CancellationManager cancelled;
  cancelled.StartCancel();
  for (const bool counting : {false, true}) {
    for (const int threads : {1, 2}) {
      results_[0] = Tensor::Scalar(NAN);
      EXPECT_TRUE(errors::IsCancelled(Run(counting, threads, &cancelled)));
      EXPECT_TRUE(std::isnan(Result(0)));
      ASSERT_EQ(Run(counting, threads), Status());
      EXPECT_EQ(Result(0), 7);
    }
  }
}

TEST_F(ExecTest, ReferenceIsReadWhenItsConsumerRuns) {
  Node* state = Add("w", "State", {});
  Fetch(Add("s", "Sum", {state}), 0);
  Build();
  variable_.tensor() = Tensor::FromBuffer(DataType::kFloat, TensorShape(), nullptr, nullptr);
  for (const bool counting : {false, true}) {
    const Status s = Run(counting);
    EXPECT_EQ(s.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(s.message(), HasSubstr("Attempting to use uninitialized value w"));
  }
  variable_.tensor() = Tensor::Scalar(4.0f);
  for (const bool counting : {false, true}) {
    ASSERT_TRUE(Run(counting).ok());
    EXPECT_EQ(Result(0), 4);
  }
  EXPECT_EQ(variable_.tensor().scalar<float>(), 4) << "a reader overwrote the variable in place";
}

TEST_F(ExecTest, CostsOfExpensiveIndependentNodesAskForThreads) {
  Node* x = Value("x", 1);
  for (int i = 0; i < 4; ++i) Fetch(Add(StrCat("s", i), "Sum", {x}), i);
  Build();
  EXPECT_FALSE(plan_->worth_parallel());
  for (int i = 0; i < plan_->num_nodes(); ++i) plan_->RecordCost(i, 1'000'000);
  plan_->UpdateParallelism();
  EXPECT_TRUE(plan_->worth_parallel());
}

// The end of a step that StartPartitions started.
struct Ending {
  Notification over;
  Status status;
  int times = 0;
  std::thread::id thread;
};

class StartedStepTest : public ExecTest {
 protected:
  void Start(Ending& ending, ThreadPool* pool = nullptr) {
    PartitionRun run;
    run.plan = plan_.get();
    run.services.UseDevice(*device_);
    run.services.resources = &resources_;
    run.services.cancellation = &cancellation_;
    StartPartitions({run}, pool, [&ending](const Status& status) {
      ending.status = status;
      ending.thread = std::this_thread::get_id();
      ++ending.times;
      ending.over.Notify();
    });
  }
  CancellationManager cancellation_;
};

TEST_F(StartedStepTest, AStepThatNeverWaitsIsOverOnReturn) {
  Fetch(Add("s", "Sum", {Value("x", 1), Value("y", 2)}), 0);
  Build();
  ThreadPool pool("test", 3);
  for (ThreadPool* p : {static_cast<ThreadPool*>(nullptr), &pool}) {
    Ending ending;
    Start(ending, p);
    ending.over.Wait();
    EXPECT_EQ(ending.status, Status());
    EXPECT_EQ(ending.times, 1);
    EXPECT_EQ(Result(0), 3);
    EXPECT_TRUE(p != nullptr || ending.thread == std::this_thread::get_id());
  }
}

TEST_F(StartedStepTest, WhatComesLaterEndsIt) {
  Fetch(Add("s", "Sum", {Add("later", "Later", {Value("x", 5)}), Value("y", 2)}), 0);
  Build();
  for (int i = 0; i < 20; ++i) {
    Ending ending;
    Start(ending);
    ending.over.Wait();
    EXPECT_EQ(ending.status, Status());
    EXPECT_EQ(Result(0), 7);
  }
}

// No thread waits: the caller itself returns and provides the input.
TEST_F(StartedStepTest, TheCallerIsFreeWhileANodeWaits) {
  for (const char* op : {"Gate", "TryingGate"}) {
    graph_ = std::make_unique<Graph>(ops_);
    Fetch(Add("s", "Sum", {Add("gate", op, {}), Value("y", 2)}), 0);
    Build();
    Ending ending;
    Start(ending);
    ASSERT_TRUE(gate_ != nullptr) << op;
    EXPECT_EQ(ending.times, 0) << op;
    std::exchange(gate_, nullptr)->Open(4);
    ending.over.Wait();
    EXPECT_EQ(ending.status, Status());
    EXPECT_EQ(ending.thread, std::this_thread::get_id()) << "the thread that opens it runs the rest";
    EXPECT_EQ(Result(0), 6);
  }
}

TEST_F(StartedStepTest, AnErrorIsHandedOnOnce) {
  Fetch(Add("bad", "Fail", {Add("later", "Later", {Value("x", 5)})}), 0);
  Fetch(Add("never", "Never", {}), 1);
  Build();
  Ending ending;
  Start(ending);
  ending.over.Wait();
  EXPECT_THAT(ending.status.message(), HasSubstr("out of luck"));
  EXPECT_EQ(ending.times, 1);
}

TEST_F(StartedStepTest, ACancelledStepEndsOutsideOfTheCancellation) {
  Fetch(Add("never", "Never", {}), 0);
  Build();
  Ending ending;
  Start(ending);
  EXPECT_EQ(ending.times, 0);
  cancellation_.StartCancel();
  ending.over.Wait();
  EXPECT_TRUE(errors::IsCancelled(ending.status)) << ending.status;
  EXPECT_NE(ending.thread, std::this_thread::get_id());
  Ending late;
  Start(late);
  late.over.Wait();
  EXPECT_TRUE(errors::IsCancelled(late.status)) << "it was cancelled before it began";
}

TEST_F(StartedStepTest, NoPartitionsAreAStepThatIsOver) {
  Status got = errors::Internal("not called");
  StartPartitions({}, nullptr, [&](const Status& status) { got = status; });
  EXPECT_EQ(got, Status());
}

TEST_F(ExecTest, ManyStepsOfOnePlanAtTheSameTime) {
  Node* last = Value("x", 1);
  for (int i = 0; i < 50; ++i) last = Add(StrCat("s", i), "Sum", {last});
  Build();
  std::vector<std::jthread> threads;
  threads.reserve(4);
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) failures += Run(t % 2 == 0, 1 + t / 2).ok() ? 0 : 1;
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace millrace
