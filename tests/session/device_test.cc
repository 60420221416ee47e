// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions with devices whose memory the host cannot read and whose work is done later
// (device/fake_device_testing.h). A missing copy of a value ends the test program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "device/fake_device_testing.h"
#include "kernels/device/fake_kernels_testing.h"
#include "millrace/run_metadata.h"
#include "tests/session/flow_builder.h"
#include "tests/session/function_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFake = "/device:FAKE:0";
constexpr const char* kOther = "/device:FAKE:1";
constexpr const char* kCpu = "/device:CPU:0";

struct Setup {
  const char* name;
  int threads;
  bool passes;
};

class DeviceTest : public ::testing::TestWithParam<Setup> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(RegisterFakeDevices().ok()); }
  void SetUp() override {
    if (InCluster()) GTEST_SKIP() << "is about the devices of one task";
  }
  tensorflow::NodeDef* On(const char* device, tensorflow::NodeDef* node) {
    node->set_device(device);
    return node;
  }
  tensorflow::NodeDef* Float(const char* device, const std::string& name, const std::string& op,
                             const Names& inputs) {
    return On(device, g_.Float(name, op, inputs));
  }
  tensorflow::NodeDef* Node(const char* device, const std::string& name, const std::string& op,
                            const Names& inputs, const AttrMap& attrs) {
    return On(device, g_.Node(name, op, inputs, attrs));
  }
  void Const(const char* device, const std::string& name, const Tensor& value) {
    On(device, g_.Const(name, value));
  }
  SessionOptions Options() const {
    SessionOptions options;
    options.device_count = {{"CPU", 1}, {"FAKE", 2}};
    options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = GetParam().threads;
    if (!GetParam().passes) options.disabled_passes = {"all"};
    return options;
  }
  void Make(const SessionOptions& options) {
    session_ = SessionWith(g_, options);
    FindDevices();
  }
  void FindDevices() {
    const std::vector<FakeDevice*> devices = FakeDevice::All();
    ASSERT_GE(devices.size(), 2u);
    fake_ = devices[devices.size() - 2];
    other_ = devices.back();
  }
  void Make() { Make(Options()); }
  Tensor Run(const std::string& fetch, const Session::Feeds& feeds = {}, const Names& targets = {}) {
    std::vector<Tensor> out;
    const Status status = session_->Run(feeds, {fetch}, targets, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? out[0] : Tensor::Scalar(-1.f);
  }
  void RunTargets(const Names& targets) {
    const Status status = session_->Run({}, {}, targets, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }

  FlowBuilder g_;
  std::unique_ptr<Session> session_;
  FakeDevice* fake_ = nullptr;
  FakeDevice* other_ = nullptr;
};

TEST_P(DeviceTest, ValuesAreCopiedThereAndBack) {
  g_.Placeholder("x");
  Float(kFake, "y", "Mul", {"x", "x"});
  Float(kFake, "z", "Add", {"y", "x"});
  Float(kCpu, "w", "Sub", {"z", "y"});
  Make();
  for (int i = 0; i < 20; ++i) {
    const auto x = static_cast<float>(i);
    EXPECT_EQ(Run("w", {{"x", F(x)}}).scalar<float>(), x);
    EXPECT_EQ(Run("z", {{"x", F(x)}}).scalar<float>(), x * x + x);
  }
}

TEST_P(DeviceTest, ATensorIsCopiedOnceForAllItsConsumers) {
  g_.Placeholder("x");
  Float(kFake, "a", "Square", {"x"});
  Float(kFake, "b", "Neg", {"x"});
  Float(kFake, "c", "Add", {"x", "a"});
  for (const char* name : {"d", "e", "f"}) Float(kCpu, name, "Add", {"c", "b"});
  g_.Node("sum", "AddN", {"d", "e", "f"}, {{"N", 3}, {"T", DataType::kFloat}})->set_device(kCpu);
  Make();
  EXPECT_EQ(Run("sum", {{"x", F(3)}}).scalar<float>(), 27);
  const int64_t from = fake_->num_copies_from_host(), to = fake_->num_copies_to_host();
  EXPECT_EQ(Run("sum", {{"x", F(3)}}).scalar<float>(), 27);
  EXPECT_EQ(fake_->num_copies_from_host() - from, 1);
  // Passes may reduce the number.
  const int64_t copies = fake_->num_copies_to_host() - to;
  EXPECT_LE(copies, 2);
  EXPECT_GE(copies, GetParam().passes ? 1 : 2);
}

TEST_P(DeviceTest, ConstantsAreCopiedOnce) {
  Const(kFake, "c", Tensor::Vector<float>({1, 2, 3}));
  g_.Placeholder("x");
  Float(kFake, "y", "Mul", {"c", "x"});
  Make();
  EXPECT_THAT(Run("y", {{"x", F(2)}}).flat<float>(), ElementsAre(2, 4, 6));
  const int64_t before = fake_->num_copies_from_host();
  EXPECT_THAT(Run("y", {{"x", F(2)}}).flat<float>(), ElementsAre(2, 4, 6));
  EXPECT_EQ(fake_->num_copies_from_host() - before, 1) << "of x alone";
  EXPECT_THAT(Run("c").flat<float>(), ElementsAre(1, 2, 3));
}

// Fill takes its dims from host memory and its value from the device's; Shape leaves its output on the host.
TEST_P(DeviceTest, HostMemoryOfRegistrationsIsObeyed) {
  g_.Placeholder("n");
  Float(kFake, "twice", "Add", {"n", "n"});
  Node(kFake, "size", "Cast", {"twice"}, {{"SrcT", DataType::kFloat}, {"DstT", DataType::kInt32}});
  Node(kFake, "dims", "Pack", {"size"}, {{"N", 1}, {"T", DataType::kInt32}, {"axis", 0}});
  Node(kFake, "fill", "Fill", {"dims", "n"}, {{"T", DataType::kFloat}, {"index_type", DataType::kInt32}});
  Node(kFake, "shape", "Shape", {"fill"}, {{"T", DataType::kFloat}, {"out_type", DataType::kInt32}});
  Node(kFake, "more", "Add", {"shape", "dims"}, {{"T", DataType::kInt32}});
  Node(kFake, "again", "Fill", {"shape", "n"}, {{"T", DataType::kFloat}, {"index_type", DataType::kInt32}});
  Make();
  EXPECT_THAT(Run("fill", {{"n", F(2)}}).flat<float>(), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(Run("shape", {{"n", F(2)}}).flat<int32_t>(), ElementsAre(4));
  EXPECT_THAT(Run("more", {{"n", F(2)}}).flat<int32_t>(), ElementsAre(8));
  EXPECT_THAT(Run("again", {{"n", F(1)}}).flat<float>(), ElementsAre(1, 1));
}

TEST_P(DeviceTest, HostMemoryIsFetchedWithoutCopies) {
  g_.Placeholder("x");
  Float(kFake, "y", "Square", {"x"});
  Node(kFake, "shape", "Shape", {"y"}, {{"T", DataType::kFloat}, {"out_type", DataType::kInt32}});
  Make();
  EXPECT_THAT(Run("shape", {{"x", Tensor::Vector<float>({1, 2, 3})}}).flat<int32_t>(), ElementsAre(3));
  EXPECT_EQ(fake_->num_copies_to_host(), 0);
  EXPECT_LE(fake_->num_copies_from_host(), 1) << "of x alone";
}

TEST_P(DeviceTest, StringsStayInHostMemory) {
  g_.Placeholder("s", tensorflow::DT_STRING);
  Node(kFake, "t", "Identity", {"s"}, {{"T", DataType::kString}});
  Node(kFake, "u", "Identity", {"t"}, {{"T", DataType::kString}});
  Make();
  EXPECT_EQ(Run("u", {{"s", Tensor::Scalar("text")}}).scalar<std::string>(), "text");
  EXPECT_EQ(fake_->num_copies_from_host(), 0);
}

TEST_P(DeviceTest, VariablesOfStringsAreInHostMemory) {
  const AttrMap dtype = {{"dtype", DataType::kString}};
  const AttrMap of_strings = {{"dtype", DataType::kString}, {"shape", PartialShape()}};
  g_.Placeholder("s", tensorflow::DT_STRING);
  Node(kFake, "ref", "VariableV2", {}, of_strings);
  Node(kFake, "set_ref", "Assign", {"ref", "s"}, {{"T", DataType::kString}, {"validate_shape", false}});
  Node(kFake, "get_ref", "Identity", {"ref"}, {{"T", DataType::kString}});
  Node(kFake, "v", "VarHandleOp", {}, of_strings);
  Node(kFake, "set", "AssignVariableOp", {"v", "s"}, dtype);
  Node(kFake, "get", "ReadVariableOp", {"v"}, dtype);
  Make();
  for (const Names& words :
       {Names{"a", "b"}, Names{"a word that is longer than a short one"}, Names{"c"}, Names{}}) {
    // The feed holds a reference, so the variable has a copy of its own.
    const Tensor value = Tensor::Vector<std::string>(words);
    const Status status = session_->Run({{"s", value}}, {}, {"set_ref", "set"}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    for (const char* get : {"get_ref", "get"}) {
      const Tensor got = Run(get);
      ASSERT_EQ(got.dtype(), DataType::kString);
      EXPECT_EQ(Names(got.flat<std::string>().begin(), got.flat<std::string>().end()), words);
    }
  }
  EXPECT_EQ(fake_->num_copies_from_host() + fake_->num_copies_to_host(), 0);
}

TEST_P(DeviceTest, TensorsWithoutElementsGoEverywhere) {
  g_.Placeholder("x");
  Float(kFake, "a", "Neg", {"x"});
  Float(kOther, "b", "Add", {"a", "x"});
  Node(kFake, "shape", "Shape", {"b"}, {{"T", DataType::kFloat}, {"out_type", DataType::kInt32}});
  Node(kFake, "v", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape()}});
  Node(kFake, "set", "Assign", {"v", "b"}, {{"T", DataType::kFloat}, {"validate_shape", false}});
  Node(kFake, "get", "Identity", {"v"}, {{"T", DataType::kFloat}});
  Const(kFake, "none", Tensor::Vector<float>({}));
  Node(kFake, "all", "ConcatV2", {"none", "none", "axis"},
       {{"N", 2}, {"T", DataType::kFloat}, {"Tidx", DataType::kInt32}});
  g_.Const("axis", I(0));
  Make();
  const Tensor empty = *Tensor::Allocate(DataType::kFloat, TensorShape({0, 3}));
  EXPECT_EQ(Run("b", {{"x", empty}}).shape(), TensorShape({0, 3}));
  EXPECT_THAT(Run("shape", {{"x", empty}}).flat<int32_t>(), ElementsAre(0, 3));
  EXPECT_EQ(Run("all").shape(), TensorShape({0}));
  for (int i = 0; i < 2; ++i) {
    const Status set = session_->Run({{"x", empty}}, {}, {"set"}, nullptr);
    ASSERT_TRUE(set.ok()) << set;
    EXPECT_EQ(Run("get").shape(), TensorShape({0, 3}));
    const Status full = session_->Run({{"x", F(2)}}, {}, {"set"}, nullptr);
    ASSERT_TRUE(full.ok()) << full;
    EXPECT_EQ(Run("get").scalar<float>(), 0) << "-2 + 2";
  }
}

TEST_P(DeviceTest, FeedsOfAnotherTypeAreRefusedOnTheDevice) {
  On(kFake, g_.Placeholder("x"));
  Float(kFake, "y", "Square", {"x"});
  Make();
  std::vector<Tensor> out;
  for (const Tensor& wrong : {I(3), Tensor::Scalar("three"), Tensor::Scalar(3.0)}) {
    const Status status = session_->Run({{"x", wrong}}, {"y"}, {}, &out);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    const Status fetched = session_->Run({{"y", wrong}}, {"y"}, {}, &out);
    EXPECT_FALSE(fetched.ok()) << fetched;
  }
  const Status missing = session_->Run({}, {"y"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(missing)) << missing;
  EXPECT_EQ(Run("y", {{"x", F(3)}}).scalar<float>(), 9);
}

// Queues have kernels on CPUs alone: what the device made is copied to them, and back.
TEST_P(DeviceTest, QueuesOfTensorsOfTheDevice) {
  const std::vector<DataType> types{DataType::kFloat, DataType::kString};
  g_.Placeholder("x");
  Float(kFake, "square", "Square", {"x"});
  Const(kFake, "name", Tensor::Scalar("n"));
  g_.Node("q", "FIFOQueueV2", {}, {{"component_types", types}});
  g_.Node("put", "QueueEnqueueV2", {"q", "square", "name"}, {{"Tcomponents", types}});
  g_.Node("take", "QueueDequeueV2", {"q"}, {{"component_types", types}});
  Float(kFake, "half", "Sqrt", {"take"});
  Node(kFake, "name2", "Identity", {"take:1"}, {{"T", DataType::kString}});
  Make();
  const Status put = session_->Run({{"x", F(3)}}, {}, {"put"}, nullptr);
  ASSERT_TRUE(put.ok()) << put;
  ASSERT_TRUE(session_->Run({{"x", Tensor::Vector<float>({5, 6})}}, {}, {"put"}, nullptr).ok());
  EXPECT_EQ(Run("half").scalar<float>(), 3);
  std::vector<Tensor> out;
  ASSERT_TRUE(session_->Run({}, {"half", "name2"}, {}, &out).ok());
  EXPECT_THAT(out[0].flat<float>(), ElementsAre(5, 6));
  EXPECT_EQ(out[1].scalar<std::string>(), "n");
  // A taker that waits is cancelled, and the device continues.
  RunOptions options;
  options.timeout_in_ms = 50;
  const Status waits = session_->Run(options, {}, {"half"}, {}, &out, nullptr);
  EXPECT_TRUE(errors::IsDeadlineExceeded(waits)) << waits;
  EXPECT_EQ(Run("square", {{"x", F(4)}}).scalar<float>(), 16);
}

TEST_P(DeviceTest, ShortageOfMemoryIsAnErrorOfTheNode) {
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.Placeholder("x");
  Node(kFake, "large", "Fill", {"n", "x"}, {{"T", DataType::kFloat}, {"index_type", DataType::kInt32}});
  Float(kFake, "more", "Square", {"large"});
  Node(kFake, "sum", "Sum", {"more", "axes"}, {{"T", DataType::kFloat}, {"Tidx", DataType::kInt32}});
  g_.Const("axes", Tensor::Vector<int32_t>({0}));
  Make();
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) {
    const Status status =
        session_->Run({{"n", Tensor::Vector<int32_t>({1 << 30})}, {"x", F(2)}}, {"sum"}, {}, &out);
    EXPECT_TRUE(errors::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("{{node large}}"));
    EXPECT_EQ(Run("sum", {{"n", Tensor::Vector<int32_t>({10})}, {"x", F(2)}}).scalar<float>(), 40);
  }
}

// The copy of a feed and a copy between devices wait in the streams while the step is cancelled, by its
// deadline or by Close.
TEST_P(DeviceTest, StepsEndWhenWhatTheyHaveInTheStreamsHas) {
  g_.Placeholder("x");
  Float(kFake, "a", "Square", {"x"});
  Float(kOther, "b", "Neg", {"a"});
  Make();
  EXPECT_EQ(Run("b", {{"x", F(2)}}).scalar<float>(), -4);
  for (const bool close : {false, true}) {
    fake_->work().Pause();
    Status status;
    std::atomic<bool> ended = false;
    RunOptions options;
    options.timeout_in_ms = close ? 0 : 20;
    std::thread running([&] {
      std::vector<Tensor> out;
      status = session_->Run(options, {{"x", F(3)}}, {"b"}, {}, &out, nullptr);
      ended = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // past the deadline
    EXPECT_FALSE(ended) << "the device still reads what the step has allocated";
    std::thread closing([&] {
      if (close) session_->Close().IgnoreError("the result of the step is what matters");
    });
    // Close has begun, or the step ends without it.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fake_->work().Resume();
    running.join();
    closing.join();
    EXPECT_TRUE(close ? errors::IsCancelled(status) || status.ok() : errors::IsDeadlineExceeded(status))
        << status;
    if (!close) {
      EXPECT_EQ(Run("b", {{"x", F(5)}}).scalar<float>(), -25);
    }
  }
}

TEST_P(DeviceTest, DevicesCopyFromEachOther) {
  Const(kFake, "a", Tensor::Vector<float>({1, 2}));
  g_.Placeholder("x");
  Float(kFake, "b", "Mul", {"a", "x"});
  Float(kOther, "c", "Square", {"b"});
  Float(kFake, "d", "Add", {"c", "b"});
  Make();
  EXPECT_THAT(Run("d", {{"x", F(3)}}).flat<float>(), ElementsAre(12, 42));
  EXPECT_EQ(other_->num_copies_from_devices(), 1);
  EXPECT_EQ(other_->num_copies_to_host() + other_->num_copies_from_host(), 0);
}

TEST_P(DeviceTest, NodesWithoutAKernelAreRefusedOrPlacedSoftly) {
  g_.Placeholder("x");
  Float(kFake, "y", "Lgamma", {"x"});
  Float("/device:FAKE:7", "z", "Square", {"y"});
  SessionOptions options = Options();
  {
    const auto session = NewSession(options);
    const Status status = (*session)->Create(g_.def());
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/device:FAKE:"));
  }
  options.allow_soft_placement = true;
  Make(options);
  EXPECT_NEAR(Run("z", {{"x", F(4)}}).scalar<float>(), std::lgamma(4.f) * std::lgamma(4.f), 1e-5);
}

TEST_P(DeviceTest, ErrorsThatDependOnValuesNameTheNode) {
  g_.Placeholder("x", tensorflow::DT_INT32);
  Node(kFake, "y", "FloorDiv", {"x", "x"}, {{"T", DataType::kInt32}});
  Make();
  EXPECT_EQ(Run("y", {{"x", I(3)}}).scalar<int32_t>(), 1);
  std::vector<Tensor> out;
  const Status status = session_->Run({{"x", I(0)}}, {"y"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("{{node y}}"));
  EXPECT_EQ(Run("y", {{"x", I(5)}}).scalar<int32_t>(), 1) << "the device continues";
}

TEST_P(DeviceTest, ALostDeviceEndsStepsWithItsError) {
  g_.Placeholder("x");
  Float(kFake, "y", "Square", {"x"});
  Const(kFake, "c", F(1));
  Float(kFake, "unfetched", "Neg", {"c"});
  Make();
  EXPECT_EQ(Run("y", {{"x", F(3)}}).scalar<float>(), 9);
  fake_->work().Launch([] { return errors::Internal("the device is lost"); });
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(std::string(session_->Run({{"x", F(3)}}, {"y"}, {}, &out).message()),
                HasSubstr("the device is lost"));
    EXPECT_THAT(std::string(session_->Run({}, {}, {"unfetched"}, nullptr).message()),
                HasSubstr("the device is lost"));
  }
}

TEST_P(DeviceTest, RunWaitsForWorkThatIsNotFetched) {
  Const(kFake, "c", F(2));
  g_.Placeholder("x");
  Float(kFake, "y", "Mul", {"c", "x"});
  Make();
  const int64_t before = fake_->work().num_done();
  const Status status = session_->Run({{"x", F(1)}}, {}, {"y"}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(fake_->work().num_done() - before, 2) << "the copy of x, and y";
}

// switch(p, x): a branch on the device, the other one dead.
TEST_P(DeviceTest, BranchesOnTheDevice) {
  g_.Placeholder("x");
  g_.Placeholder("limit");
  Node(kFake, "p", "Less", {"x", "limit"}, {{"T", DataType::kFloat}});
  Float(kFake, "switch", "Switch", {"x", "p"});
  Float(kFake, "small", "Neg", {"switch:1"});
  Float(kCpu, "large", "Square", {"switch:0"});
  Node(kFake, "merge", "Merge", {"large", "small"}, {{"N", 2}, {"T", DataType::kFloat}});
  Node(kFake, "index", "Identity", {"merge:1"}, {{"T", DataType::kInt32}});
  Float(kOther, "result", "Add", {"merge", "x"});
  Make();
  EXPECT_EQ(Run("result", {{"x", F(2)}, {"limit", F(5)}}).scalar<float>(), 0);
  EXPECT_EQ(Run("result", {{"x", F(6)}, {"limit", F(5)}}).scalar<float>(), 42);
  EXPECT_EQ(Run("index", {{"x", F(6)}, {"limit", F(5)}}).scalar<int32_t>(), 0);
  EXPECT_EQ(Run("index", {{"x", F(2)}, {"limit", F(5)}}).scalar<int32_t>(), 1);
  std::vector<Tensor> out;
  const Status dead = session_->Run({{"x", F(2)}, {"limit", F(5)}}, {"large"}, {}, &out);
  EXPECT_FALSE(dead.ok()) << "it is dead";
}

class DeviceLoopTest : public DeviceTest {
 protected:
  // i = 0, x = start; while (i < n) { i = i + 1; x = x + i }, spread over devices by their index in the list.
  void Loop(const std::vector<const char*>& devices, bool constant_limit = true) {
    g_.Placeholder("n", tensorflow::DT_INT32);
    g_.Placeholder("start", tensorflow::DT_INT32);
    g_.Value("zero", 0);
    g_.Enter("limit", "n", "loop", constant_limit);
    g_.While(
        "loop", {"zero", "start"},
        [&](const std::string& prefix, const std::string& /*pivot*/, const Names& vars) {
          g_.Int(prefix + "/less", "Less", {vars[0], "limit"});
          return prefix + "/less";
        },
        [&](const std::string& prefix, const std::string& pivot, const Names& vars) {
          g_.Value(prefix + "/one", 1, {pivot});
          g_.Int(prefix + "/i", "Add", {vars[0], prefix + "/one"});
          g_.Int(prefix + "/x", "Add", {vars[1], prefix + "/i"});
          return Names{prefix + "/i", prefix + "/x"};
        });
    def_ = g_.def();
    size_t next = 0;
    for (tensorflow::NodeDef& node : *def_.mutable_node()) {
      if (node.op() == "Placeholder") continue;
      node.set_device(devices[next++ % devices.size()]);
    }
    session_ = *NewSession(Options());
    const Status created = session_->Create(def_);
    ASSERT_TRUE(created.ok()) << created;
    FindDevices();
  }
  void ExpectSums() {
    for (const int32_t n : {0, 1, 7, 100}) {
      EXPECT_EQ(Run("loop/Exit_1", {{"n", I(n)}, {"start", I(5)}}).scalar<int32_t>(), 5 + n * (n + 1) / 2)
          << n;
    }
  }
  tensorflow::GraphDef def_;
};

TEST_P(DeviceLoopTest, LoopsRunOnTheDevice) {
  Loop({kFake});
  ExpectSums();
}

TEST_P(DeviceLoopTest, LoopsRunOverHostAndDevice) {
  Loop({kFake, kCpu});
  ExpectSums();
}

TEST_P(DeviceLoopTest, LoopsRunOverDevices) {
  Loop({kFake, kCpu, kOther, kFake, kOther});
  ExpectSums();
}

TEST_P(DeviceLoopTest, AnEndlessLoopOnTheDeviceIsCancelled) {
  Loop({kFake});
  RunOptions options;
  options.timeout_in_ms = 100;
  std::vector<Tensor> out;
  const Status status =
      session_->Run(options, {{"n", I(INT32_MAX)}, {"start", I(0)}}, {"loop/Exit_0"}, {}, &out, nullptr);
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  ExpectSums();
}

TEST_P(DeviceLoopTest, CloseEndsStepsOfDevices) {
  Loop({kFake, kCpu});
  Status status;
  std::thread running([&] {
    std::vector<Tensor> out;
    status = session_->Run({{"n", I(INT32_MAX)}, {"start", I(0)}}, {"loop/Exit_0"}, {}, &out);
  });
  // Not endlessly: with several tasks the loop may run on the device of another one.
  for (int i = 0; i < 200 && fake_->work().num_done() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(session_->Close().ok());
  running.join();
  EXPECT_TRUE(errors::IsCancelled(status)) << status;
}

TEST_P(DeviceTest, ReferenceVariablesLiveOnTheDevice) {
  Node(kFake, "v", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape(TensorShape())}});
  Const(kCpu, "ten", F(10));
  Const(kFake, "two", F(2));
  g_.Float("init", "Assign", {"v", "ten"});
  g_.Float("add", "AssignAdd", {"v", "two"});
  g_.Float("step", "ApplyGradientDescent", {"v", "two", "ten"});
  g_.Float("value", "Identity", {"v"});
  g_.Node("there", "IsVariableInitialized", {"v"}, {{"dtype", DataType::kFloat}});
  Make();
  EXPECT_FALSE(Run("there").scalar<bool>());
  std::vector<Tensor> out;
  const Status early = session_->Run({}, {"value"}, {}, &out);
  EXPECT_TRUE(errors::IsFailedPrecondition(early)) << early;
  RunTargets({"init"});
  EXPECT_TRUE(Run("there").scalar<bool>());
  EXPECT_EQ(Run("value").scalar<float>(), 10);
  EXPECT_EQ(Run("add").scalar<float>(), 12);
  EXPECT_EQ(Run("add").scalar<float>(), 14);
  RunTargets({"step"});
  EXPECT_EQ(Run("value").scalar<float>(), -6);
  RunTargets({"init"});
  EXPECT_EQ(Run("value").scalar<float>(), 10) << "the constant is as it was";
  EXPECT_EQ(Run("ten").scalar<float>(), 10);
}

TEST_P(DeviceTest, ResourceVariablesLiveOnTheDevice) {
  const AttrMap dtype = {{"dtype", DataType::kFloat}};
  Node(kFake, "v", "VarHandleOp", {},
       {{"dtype", DataType::kFloat}, {"shape", PartialShape(TensorShape({2}))}});
  Const(kCpu, "start", Tensor::Vector<float>({1, 2}));
  Const(kFake, "by", Tensor::Vector<float>({10, 20}));
  g_.Node("init", "AssignVariableOp", {"v", "start"}, dtype);
  g_.Node("add", "AssignAddVariableOp", {"v", "by"}, dtype);
  g_.Node("value", "ReadVariableOp", {"v"}, dtype);
  g_.Node("shape", "VariableShape", {"v"}, {{"out_type", DataType::kInt32}});
  g_.Node("there", "VarIsInitializedOp", {"v"}, {});
  Make();
  EXPECT_FALSE(Run("there").scalar<bool>());
  RunTargets({"init"});
  EXPECT_THAT(Run("value").flat<float>(), ElementsAre(1, 2));
  RunTargets({"add"});
  RunTargets({"add"});
  EXPECT_THAT(Run("value").flat<float>(), ElementsAre(21, 42));
  EXPECT_THAT(Run("shape").flat<int32_t>(), ElementsAre(2));
  EXPECT_THAT(Run("by").flat<float>(), ElementsAre(10, 20));
}

// y = f(x) = x * x + x, with the product on the device.
FunctionBuilder SquarePlus(const char* device) {
  FunctionBuilder f("F");
  f.Arg("x: float").Ret("y: float").NoInline();
  f.Node("square", "Mul", {"x", "x"}, kFloat, device);
  f.Node("sum", "Add", {"square:z", "x"}, kFloat).Return("y", "sum:z");
  return f;
}

TEST_P(DeviceTest, FunctionsRunOnTheDevice) {
  g_.Function(SquarePlus(""));
  g_.Placeholder("x");
  const std::vector<DataType> floats{DataType::kFloat};
  Node(kFake, "y", "PartitionedCall", {"x"}, {{"f", Fn("F")}, {"Tin", floats}, {"Tout", floats}});
  Float(kFake, "z", "Neg", {"y"});
  Make();
  const int64_t to_host = fake_->num_copies_to_host();
  EXPECT_EQ(Run("z", {{"x", F(3)}}).scalar<float>(), -12);
  EXPECT_EQ(fake_->num_copies_to_host() - to_host, 1) << "arguments and results stay on the device";
}

TEST_P(DeviceTest, FunctionsUseDevicesOfTheirOwn) {
  g_.Function(SquarePlus(kFake));
  g_.Placeholder("x");
  const std::vector<DataType> floats{DataType::kFloat};
  Node(kCpu, "y", "PartitionedCall", {"x"}, {{"f", Fn("F")}, {"Tin", floats}, {"Tout", floats}});
  Make();
  EXPECT_EQ(Run("y", {{"x", F(3)}}).scalar<float>(), 12);
  // The sum is on a CPU, or on a device that the configuration of the tests chooses.
  EXPECT_GE(fake_->num_copies_to_host() + other_->num_copies_from_devices(), 1);
}

TEST_P(DeviceTest, ConditionsCallFunctionsOnTheDevice) {
  g_.Function(SquarePlus(""));
  FunctionBuilder negative("G");
  negative.Arg("x: float").Ret("y: float").NoInline();
  negative.Node("y", "Neg", {"x"}, kFloat).Return("y", "y:y");
  g_.Function(negative);
  g_.Placeholder("x");
  Const(kFake, "zero", F(0));
  Node(kFake, "p", "Less", {"zero", "x"}, {{"T", DataType::kFloat}});
  const std::vector<DataType> floats{DataType::kFloat};
  Node(kFake, "if", "If", {"p", "x"},
       {{"Tcond", DataType::kBool},
        {"Tin", floats},
        {"Tout", floats},
        {"then_branch", Fn("F")},
        {"else_branch", Fn("G")}});
  Make();
  EXPECT_EQ(Run("if", {{"x", F(3)}}).scalar<float>(), 12);
  EXPECT_EQ(Run("if", {{"x", F(-3)}}).scalar<float>(), 3);
}

TEST_P(DeviceTest, CasesCallFunctionsOnTheDevice) {
  g_.Function(SquarePlus(""));
  FunctionBuilder negative("G");
  negative.Arg("x: float").Ret("y: float").NoInline();
  negative.Node("y", "Neg", {"x"}, kFloat).Return("y", "y:y");
  g_.Function(negative);
  g_.Placeholder("x");
  Node(kFake, "index", "Cast", {"x"}, {{"SrcT", DataType::kFloat}, {"DstT", DataType::kInt32}});
  const std::vector<DataType> floats{DataType::kFloat};
  Node(kFake, "case", "Case", {"index", "x"},
       {{"Tin", floats}, {"Tout", floats}, {"branches", std::vector<NameAttrList>{Fn("F"), Fn("G")}}});
  Make();
  EXPECT_EQ(Run("case", {{"x", F(0.5f)}}).scalar<float>(), 0.75f);
  EXPECT_EQ(Run("case", {{"x", F(1)}}).scalar<float>(), -1);
  EXPECT_EQ(Run("case", {{"x", F(5)}}).scalar<float>(), -5) << "the last branch";
}

TEST_P(DeviceTest, LoopsCallFunctionsOnTheDevice) {
  g_.Function(SquarePlus(""));
  FunctionBuilder below("Below");
  below.Arg("x: float").Ret("go: bool").NoInline();
  below.Node("limit", "Const", {}, {{"dtype", DataType::kFloat}, {"value", F(100)}});
  below.Node("less", "Less", {"x", "limit:output"}, kFloat).Return("go", "less:z");
  g_.Function(below);
  g_.Placeholder("x");
  const AttrMap attrs = {
      {"T", std::vector<DataType>{DataType::kFloat}}, {"cond", Fn("Below")}, {"body", Fn("F")}};
  for (const char* op : {"While", "StatelessWhile"}) Node(kFake, op, op, {"x"}, attrs);
  AttrMap lowered = attrs;
  lowered.Set("_lower_using_switch_merge", true);
  Node(kFake, "lowered", "While", {"x"}, lowered);
  Make();
  for (const char* loop : {"While", "StatelessWhile", "lowered"}) {
    EXPECT_EQ(Run(loop, {{"x", F(3)}}).scalar<float>(), 156) << loop;
    EXPECT_EQ(Run(loop, {{"x", F(200)}}).scalar<float>(), 200) << loop;
  }
}

TEST_P(DeviceTest, CountedLoopsCallFunctionsOnTheDevice) {
  const AttrMap ints = {{"T", DataType::kInt32}};
  FunctionBuilder add("AddIndex");
  add.Arg("i: int32").Arg("sum: int32").Ret("total: int32").NoInline();
  add.Node("add", "Add", {"sum", "i"}, ints).Return("total", "add:z");
  g_.Function(add);
  for (const char* name : {"start", "limit", "delta", "zero"}) g_.Placeholder(name, tensorflow::DT_INT32);
  Node(kFake, "for", "For", {"start", "limit", "delta", "zero"},
       {{"T", std::vector<DataType>{DataType::kInt32}}, {"body", Fn("AddIndex")}});
  Make();
  const auto scalar = [](int32_t value) { return Tensor::Scalar(value); };
  EXPECT_EQ(
      Run("for", {{"start", scalar(1)}, {"limit", scalar(6)}, {"delta", scalar(2)}, {"zero", scalar(0)}})
          .scalar<int32_t>(),
      9);
  EXPECT_EQ(
      Run("for", {{"start", scalar(1)}, {"limit", scalar(1)}, {"delta", scalar(2)}, {"zero", scalar(7)}})
          .scalar<int32_t>(),
      7);
}

TEST_P(DeviceTest, AnEndlessLoopOverFunctionsOfTheDeviceIsCancelled) {
  FunctionBuilder always("Always");
  always.Arg("x: float").Ret("go: bool").NoInline();
  always.Node("true", "Equal", {"x", "x"}, kFloat).Return("go", "true:z");
  g_.Function(always);
  g_.Placeholder("x");
  Node(kFake, "loop", "While", {"x"},
       {{"T", std::vector<DataType>{DataType::kFloat}}, {"cond", Fn("Always")}, {"body", Fn("Neg", kFloat)}});
  Make();
  RunOptions options;
  options.timeout_in_ms = 20;
  std::vector<Tensor> out;
  const Status status = session_->Run(options, {{"x", F(1)}}, {"loop"}, {}, &out, nullptr);
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
}

TEST_P(DeviceTest, PartialRunsFeedAndFetchDevices) {
  g_.Placeholder("x");
  g_.Placeholder("y");
  Float(kFake, "a", "Square", {"x"});
  Float(kFake, "b", "Add", {"a", "y"});
  Make();
  const auto handle = session_->PRunSetup({"x", "y"}, {"a", "b"}, {});
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::vector<Tensor> out;
  Status status = session_->PRun(*handle, {{"x", F(3)}}, {"a"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].scalar<float>(), 9);
  status = session_->PRun(*handle, {{"y", F(1)}}, {"b"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].scalar<float>(), 10);
}

TEST_P(DeviceTest, TracesSayWhenTheDeviceWorked) {
  g_.Placeholder("x");
  Float(kFake, "y", "Square", {"x"});
  Float(kFake, "z", "Neg", {"y"});
  Make();
  RunOptions options;
  options.trace_level = RunOptions::TraceLevel::kFull;
  std::vector<Tensor> out;
  RunMetadata metadata;
  const Status status = session_->Run(options, {{"x", F(3)}}, {"z"}, {}, &out, &metadata);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].scalar<float>(), -9);
  const NodeStats *ran = nullptr, *first = nullptr, *second = nullptr;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& node : device.nodes) {
      const bool stream = device.device == fake_->name() + "/stream:all";
      if (stream && node.node == "y") first = &node;
      if (stream && node.node == "z") second = &node;
      if (device.device == fake_->name() && node.node == "y") ran = &node;
    }
  }
  ASSERT_NE(ran, nullptr);
  if (!GetParam().passes) {
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
    EXPECT_LE(ran->start_ns, first->start_ns);
    EXPECT_LE(first->start_ns, first->end_ns);
    EXPECT_LE(first->end_ns, second->start_ns);
    EXPECT_LE(second->start_ns, second->end_ns);
  }
}

TEST_P(DeviceTest, SessionsAtTheSameTimeShareNoDevice) {
  g_.Placeholder("x");
  Float(kFake, "y", "Square", {"x"});
  Make();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto x = static_cast<float>(t * 100 + i);
        EXPECT_EQ(Run("y", {{"x", F(x)}}).scalar<float>(), x * x);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DeviceTest, DevicesAreListed) {
  Make();
  const auto devices = session_->ListDevices();
  ASSERT_TRUE(devices.ok());
  std::vector<std::string> types;
  for (const DeviceInfo& device : *devices) types.push_back(device.type);
  EXPECT_THAT(types, ElementsAre("CPU", "FAKE", "FAKE"));
}

const Setup kSetups[] = {{"two_threads", 2, true},
                         {"one_thread", 1, true},
                         {"passes_off", 2, false},
                         {"passes_off_one_thread", 1, false}};
const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Setups, DeviceTest, ::testing::ValuesIn(kSetups), kName);
INSTANTIATE_TEST_SUITE_P(Setups, DeviceLoopTest, ::testing::ValuesIn(kSetups), kName);

}  // namespace
}  // namespace millrace
