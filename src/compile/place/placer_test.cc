// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/placer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/logging.h"
#include "compile/testing.h"
#include "graph/function_def_builder.h"
#include "graph/function_library.h"
#include "graph/testing.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const AttrMap kFloat = {{"T", DataType::kFloat}};
const AttrMap kDtype = {{"dtype", DataType::kFloat}};

AttrMap Loc(AttrMap attrs, const std::string& name) {
  attrs.Set("_class", std::vector<std::string>{"loc:@" + name});
  return attrs;
}

// Devices CPU:0, CPU:1, GPU:0, GPU:1. Add, Identity and Const have GPU kernels.
class PlacerTest : public testing::Test {
 protected:
  PlacerTest() {
    options_.devices = &devices_;
    options_.has_kernel = FakeKernels({"Add", "Identity", "Const", "Shape", "VariableV2", "Assign"});
  }
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}, std::string_view device = {}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs), device);
  }
  Node* Const(std::string_view name) {
    return Add(name, "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
  }
  void AddFunction(const FunctionBuilder& function) {
    tensorflow::FunctionDef def;
    EXPECT_EQ(function.Build(&def), Status());
    EXPECT_EQ(graph_.functions().Add(def), Status());
  }
  // The short name of the device of a node: "GPU:0".
  std::string DeviceOf(std::string_view name) {
    const std::string& device = graph_.FindNode(name)->assigned_device();
    return device.empty() ? "none" : device.substr(device.rfind(':', device.rfind(':') - 1) + 1);
  }
  void PlaceOk() {
    const Status status = Place(&graph_, options_);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::string PlaceError() {
    const Status status = Place(&graph_, options_);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    for (const Node* node : graph_.OpNodes())
      EXPECT_FALSE(node->has_assigned_device()) << "an error must change nothing";
    return status.message();
  }

  const DeviceView devices_{*FakeDevices({"0/CPU:0", "0/CPU:1", "0/GPU:0", "0/GPU:1"})};
  Graph graph_{TestOps()};
  CompileOptions compile_;
  PlaceOptions options_{compile_};
};

TEST_F(PlacerTest, FastestDeviceWithAKernelIsTaken) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"});
  Add("n", "Neg", {"a"});
  PlaceOk();
  EXPECT_EQ(DeviceOf("a"), "GPU:0");
  EXPECT_EQ(DeviceOf("n"), "CPU:0");
}

TEST_F(PlacerTest, RequestsAreHonouredInEverySpelling) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"}, {}, "/cpu:1");
  Add("b", "Add", {"p", "p"}, {}, "/job:a/device:GPU:1");
  Add("c", "Add", {"p", "p"}, {}, "/device:CPU:*");
  Add("d", "Add", {"p", "p"}, {}, "/device:*:1");
  PlaceOk();
  EXPECT_EQ(DeviceOf("a"), "CPU:1");
  EXPECT_EQ(DeviceOf("b"), "GPU:1");
  EXPECT_EQ(DeviceOf("c"), "CPU:0");
  EXPECT_EQ(DeviceOf("d"), "GPU:1");
}

TEST_F(PlacerTest, ReferencesKeepNodesTogether) {
  Add("v", "VariableV2", {}, {}, "/cpu:1");
  Const("c");
  Add("as", "Assign", {"v", "c"});
  Add("read", "Identity", {"v"}, kFloat);
  PlaceOk();
  EXPECT_EQ(DeviceOf("as"), "CPU:1");
  EXPECT_EQ(DeviceOf("read"), "GPU:0") << "reading the value needs no reference";
}

TEST_F(PlacerTest, ResourcesKeepNodesTogether) {
  Add("v", "VarHandleOp", {}, {{"shape", PartialShape{2}}, {"dtype", DataType::kFloat}}, "/cpu:1");
  Add("r", "ReadVariableOp", {"v"}, kDtype);
  PlaceOk();
  EXPECT_EQ(DeviceOf("r"), "CPU:1");
}

// The GPU has variables but cannot read them.
TEST_F(PlacerTest, ResourcesAreWhereTheFunctionsThatGetThemCanUseThem) {
  options_.has_kernel = FakeKernels({"VarHandleOp", "Identity", "Read", "ReadWithin", "Ignore"});
  const auto function = [](std::string name) {
    FunctionBuilder f(std::move(name));
    return f.Arg("x: float").Arg("v: resource").Ret("y: float").Stateful();
  };
  AddFunction(function("Read").Node("r", "ReadVariableOp", {"v"}, kDtype).Return("y", "r:value"));
  AddFunction(function("ReadWithin")
                  .Node("again", "ReadWithin", {"x", "v"})
                  .Node("r", "Read", {"again:y", "v"})
                  .Return("y", "r:y"));
  AddFunction(function("Ignore").Node("i", "Identity", {"x"}, kFloat).Return("y", "i:output"));
  Add("p", "Placeholder", {}, kDtype);
  for (const std::string name : {"Read", "ReadWithin", "Ignore"}) {
    Add("v" + name, "VarHandleOp", {}, {{"shape", PartialShape{2}}, {"dtype", DataType::kFloat}});
    Add("call" + name, name, {"p", "v" + name});
  }
  PlaceOk();
  EXPECT_EQ(DeviceOf("vRead"), "CPU:0");
  EXPECT_EQ(DeviceOf("callRead"), "CPU:0");
  EXPECT_EQ(DeviceOf("vReadWithin"), "CPU:0");
  EXPECT_EQ(DeviceOf("vIgnore"), "GPU:0");
  // Other steps can use a variable that was placed by hand.
  const auto handle = [&](const std::string& name) {
    Add(name, "VarHandleOp", {}, {{"shape", PartialShape{2}}, {"dtype", DataType::kFloat}}, "/gpu:1");
    Add("call_" + name, "Read", {"p", name});
  };
  handle("hard");
  PlaceOk();
  EXPECT_EQ(DeviceOf("hard"), "GPU:1");
  compile_.allow_soft_placement = true;
  handle("soft");
  PlaceOk();
  EXPECT_EQ(DeviceOf("soft"), "CPU:0");
}

TEST_F(PlacerTest, ColocationGroupsShareADeviceEvenUnderAnUnknownName) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"}, Loc({}, "gone"));
  Add("b", "Add", {"p", "p"}, Loc({}, "gone"), "/gpu:1");
  Add("c", "Neg", {"p"}, Loc({}, "d"));
  Add("d", "Add", {"p", "p"});
  PlaceOk();
  EXPECT_EQ(DeviceOf("a"), "GPU:1");
  EXPECT_EQ(DeviceOf("d"), "CPU:0") << "Neg has no GPU kernel, so its group goes to the CPU";
}

TEST_F(PlacerTest, GeneratorsGoToTheirConsumers) {
  Const("c");
  Const("shared");
  Add("n", "Neg", {"c"});
  Add("m", "Neg", {"shared"}, {}, "/cpu:1");
  Add("a", "Add", {"shared", "shared"});
  Const("lonely");
  PlaceOk();
  EXPECT_EQ(DeviceOf("c"), "CPU:0");
  EXPECT_EQ(DeviceOf("shared"), "GPU:0") << "its consumers are apart, so the default holds";
  EXPECT_EQ(DeviceOf("lonely"), "GPU:0");
}

TEST_F(PlacerTest, GeneratorStaysWhereItsConsumerCantTakeIt) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"});
  PlaceOk();
  EXPECT_EQ(DeviceOf("p"), "CPU:0") << "Placeholder has no GPU kernel";
}

TEST_F(PlacerTest, MetadataIsReadWhereTheTensorIs) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"}, {}, "/cpu:1");
  Add("s", "Shape", {"a"});
  Add("t", "Shape", {"a"}, {}, "/gpu:0");
  PlaceOk();
  EXPECT_EQ(DeviceOf("s"), "CPU:1");
  EXPECT_EQ(DeviceOf("t"), "GPU:0");
}

TEST_F(PlacerTest, AssignedNodesStayAndPullTheirGroup) {
  Node* v = Add("v", "VariableV2");
  v->set_assigned_device(FakeDeviceName("0/CPU:1"));
  Const("c");
  Add("as", "Assign", {"v", "c"});
  PlaceOk();
  EXPECT_EQ(DeviceOf("v"), "CPU:1");
  EXPECT_EQ(DeviceOf("as"), "CPU:1");
  EXPECT_EQ(DeviceOf("c"), "CPU:1");
  Add("late", "Neg", {"c"});
  PlaceOk();
  EXPECT_EQ(DeviceOf("late"), "CPU:0");
}

TEST_F(PlacerTest, OpWithoutAKernelIsAnError) {
  options_.has_kernel = [](std::string_view, const NodeProps& props) { return props.op->def.name != "Neg"; };
  Add("p", "Placeholder", {}, kDtype);
  Add("n", "Neg", {"p"});
  options_.kernels_text = [](std::string_view op) { return StrCat("  all of ", op, "\n"); };
  EXPECT_EQ(
      PlaceError(),
      "No OpKernel was registered to support Op 'Neg' used by {{node n}}with these attrs: [T=DT_FLOAT]\n"
      "Registered devices: [GPU, CPU]\nRegistered kernels:\n  all of Neg\n\n\t [[n]]");
}

TEST_F(PlacerTest, NodesWithoutKernelsMayBeLeft) {
  options_.has_kernel = [](std::string_view, const NodeProps& props) { return props.op->def.name != "Neg"; };
  options_.leave_without_kernel = true;
  Add("p", "Placeholder", {}, kDtype);
  Add("n", "Neg", {"p"});
  Add("i", "Identity", {"n"}, kFloat);
  PlaceOk();
  EXPECT_EQ(DeviceOf("p"), "GPU:0");
  EXPECT_EQ(DeviceOf("n"), "none");
  EXPECT_EQ(DeviceOf("i"), "GPU:0");
}

TEST_F(PlacerTest, MissingDeviceIsAnError) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"}, {}, "/job:a/device:GPU:7");
  EXPECT_EQ(
      PlaceError(),
      "Cannot assign a device for operation a: {{node a}} was explicitly assigned to /job:a/device:GPU:7 but "
      "available devices are [ /job:a/replica:0/task:0/device:CPU:0, /job:a/replica:0/task:0/device:CPU:1, "
      "/job:a/replica:0/task:0/device:GPU:0, /job:a/replica:0/task:0/device:GPU:1 ]. Make sure the device "
      "specification refers to a valid device.\n\t [[a]]");
}

TEST_F(PlacerTest, DeviceWithoutAKernelIsAnError) {
  Add("p", "Placeholder", {}, kDtype);
  Add("n", "Neg", {"p"}, {}, "/gpu:0");
  const std::string message = PlaceError();
  EXPECT_THAT(message,
              HasSubstr("Cannot assign a device for operation n: Could not satisfy explicit device "
                        "specification '/gpu:0' because no supported kernel for GPU devices is available."));
  EXPECT_THAT(message, HasSubstr("Colocation group had the following types and devices: \nNeg: CPU"));
}

TEST_F(PlacerTest, MalformedDeviceIsAnErrorNamingTheNode) {
  Add("x", "NoOp", {}, {}, "/gpu:zero");
  EXPECT_EQ(PlaceError(), "Malformed device specification '/gpu:zero'; requested by node 'x' (op NoOp)");
}

TEST_F(PlacerTest, ColocatedNodesThatAskForDifferentDevicesAreAnError) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"}, {}, "/gpu:0");
  Add("b", "Add", {"p", "p"}, Loc({}, "a"), "/gpu:1");
  EXPECT_EQ(
      PlaceError(),
      "Cannot colocate nodes 'a' and 'b': Cannot merge devices with incompatible ids: '/device:GPU:0' and "
      "'/device:GPU:1'");
}

TEST_F(PlacerTest, ColocatedNodesWithoutACommonDeviceTypeAreAnError) {
  Add("p", "Placeholder", {}, kDtype);
  Add("g", "GpuOnly", {"p"});
  Add("n", "Neg", {"p"}, Loc({}, "g"));
  const std::string message = PlaceError();
  EXPECT_THAT(
      message,
      HasSubstr("Cannot colocate nodes 'g' and 'n' because no device type supports both of those nodes "
                "and the other nodes colocated with them."));
  EXPECT_THAT(message, HasSubstr("\nGpuOnly: GPU"));
  EXPECT_THAT(message, HasSubstr("\nNeg: CPU"));
}

TEST_F(PlacerTest, GroupThatNeedsAnotherDeviceNamesBoth) {
  Add("p", "Placeholder", {}, kDtype);
  Add("a", "Add", {"p", "p"}, Loc({}, "n"));
  Add("n", "Neg", {"p"}, {}, "/gpu:0");
  EXPECT_THAT(
      PlaceError(),
      HasSubstr("Cannot assign a device for operation a: Could not satisfy explicit device specification '' "
                "because the node was colocated with a group of nodes that required incompatible device "
                "'/device:GPU:0'"));
}

TEST_F(PlacerTest, NodesTiedByAReferenceCantBeApart) {
  Add("v", "VariableV2", {}, {}, "/gpu:0");
  Const("c");
  Add("as", "Assign", {"v", "c"}, {}, "/gpu:1");
  EXPECT_THAT(PlaceError(),
              HasSubstr("Nodes were connected by a reference connection (requiring them to be on the same "
                        "device), but the two nodes could not be colocated: Cannot colocate nodes 'v' and "
                        "'as': Cannot merge devices with incompatible ids"));
}

TEST_F(PlacerTest, SoftPlacementTakesWhatThereIs) {
  compile_.allow_soft_placement = true;
  Add("p", "Placeholder", {}, kDtype);
  Add("missing", "Add", {"p", "p"}, {}, "/gpu:7");
  Add("no_kernel", "Neg", {"p"}, {}, "/gpu:0");
  Add("a", "Add", {"p", "p"}, {}, "/gpu:0");
  Add("b", "Add", {"p", "p"}, Loc({}, "a"), "/gpu:1");
  PlaceOk();
  EXPECT_EQ(DeviceOf("missing"), "GPU:0");
  EXPECT_EQ(DeviceOf("no_kernel"), "CPU:0");
  EXPECT_EQ(DeviceOf("a"), DeviceOf("b"));
}

TEST_F(PlacerTest, SoftPlacementStaysInItsJob) {
  compile_.allow_soft_placement = true;
  Add("x", "NoOp", {}, {}, "/job:elsewhere/cpu:0");
  EXPECT_THAT(PlaceError(),
              HasSubstr("explicitly assigned to /job:elsewhere/cpu:0 but available devices are"));
}

std::vector<std::string>* logged = nullptr;

TEST_F(PlacerTest, PlacementIsLoggedOnRequest) {
  std::vector<std::string> lines;
  logged = &lines;
  SetLogSinkForTest([](LogLevel, std::string_view message) { logged->emplace_back(message); });
  compile_.log_device_placement = true;
  Add("x", "NoOp");
  PlaceOk();
  SetLogSinkForTest(nullptr);
  EXPECT_THAT(lines, ElementsAre("x: (NoOp): /job:a/replica:0/task:0/device:CPU:0"));
}

TEST_F(PlacerTest, SpreadNodesThatReadAReferenceLateStayWithTheVariable) {
  compile_.spread_over_types = true;
  Const("value");
  for (int i = 0; i < 20; ++i) {
    const std::string v = StrCat("v", i);
    Add(v, "VariableV2");
    Node* const assign = Add(StrCat("assign", i), "Assign", {v, "value"});
    Node* const late = Add(StrCat("late", i), "Add", {v, v}, kFloat);
    graph_.AddControlEdgeUnchecked(assign, late);
    Add(StrCat("early", i), "Add", {v, v}, kFloat);
  }
  compile_.spread_seed = 1;
  PlaceOk();
  int apart = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(DeviceOf(StrCat("late", i)), DeviceOf(StrCat("v", i)));
    apart += DeviceOf(StrCat("early", i)) != DeviceOf(StrCat("v", i)) ? 1 : 0;
  }
  EXPECT_GT(apart, 0);
}

TEST_F(PlacerTest, LongChainsOfGroupsStayCheapAndAskOncePerKindOfNode) {
  int asked = 0;
  options_.has_kernel = [&asked](std::string_view type, const NodeProps&) {
    ++asked;
    return type == "CPU";
  };
  Node* last = Add("n0", "NoOp", {}, Loc({}, "group"));
  for (int i = 1; i < 100000; ++i) {
    Node* node = graph_.AddNodeWithProps(StrCat("n", i), last->shared_props());
    graph_.AddControlEdgeUnchecked(last, node);
    last = node;
  }
  PlaceOk();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(DeviceOf("n99999"), "CPU:0");
}

}  // namespace
}  // namespace millrace
