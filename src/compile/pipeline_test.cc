// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/pipeline.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const AttrMap kDtype = {{"dtype", DataType::kFloat}};

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() {
    context_.place.devices = &devices_;
    context_.place.has_kernel = FakeKernels({});
    context_.prune.client_device = FakeDeviceName("0/CPU:0");
    context_.evaluator = &evaluator_;
    options_.validate = true;
    // (x + (1 + 2)) twice, the second one on another device.
    AddTestNode(&full_, "x", "Placeholder", {}, kDtype);
    Const("one", 1);
    Const("two", 2);
    AddTestNode(&full_, "three", "Add", {"one", "two"});
    AddTestNode(&full_, "a", "Add", {"x", "three"});
    AddTestNode(&full_, "b", "Add", {"three", "x"});
    AddTestNode(&full_, "sum", "Sub", {"a", "b"}, {}, "/cpu:1");
    AddTestNode(&full_, "unused", "Neg", {"x"});
  }
  void Const(std::string_view name, float value) {
    AddTestNode(&full_, name, "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(value)}});
  }
  static std::vector<std::string> Names(const CompiledGraphs& compiled) {
    std::vector<std::string> names;
    for (const PassStats& pass : compiled.passes) names.push_back(pass.pass);
    return names;
  }
  float Run(const CompiledGraphs& compiled) {
    std::vector<const Graph*> graphs;
    for (const GraphPartition& part : compiled.partitions) graphs.push_back(part.graph.get());
    const auto values = InterpretParts(graphs, {{"arg:0", 10.f}});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? values->at("retval:0") : NAN;
  }

  const DeviceView devices_{*FakeDevices({"0/CPU:0", "0/CPU:1"})};
  Graph full_{TestOps()};
  FakeEvaluator evaluator_;
  CompileOptions options_;
  CompileContext context_{options_};
  const RunSignature signature_{{"x"}, {"a"}, {"sum"}};
};

TEST_F(PipelineTest, PassesRunInOrderAndTellWhatTheyDid) {
  const auto compiled = Compile(full_, signature_, context_);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const std::vector<std::string> names = Names(*compiled);
  std::vector<std::string> expected = {"prune", "inline", "lower", "place", "reads"};
  for (const PassInfo& pass : OptionalPasses()) {
    if (std::string_view(pass.name) != "inline") expected.emplace_back(pass.name);
  }
  expected.emplace_back("partition");
  EXPECT_EQ(names, expected);
  const auto stats = [&](std::string_view pass) -> const PassStats& {
    return compiled->passes[static_cast<size_t>(std::find(names.begin(), names.end(), pass) - names.begin())];
  };
  EXPECT_EQ(stats("fold").note, "folded 1 tensors");
  EXPECT_EQ(stats("cse").note, "merged 1 nodes");
  EXPECT_EQ(stats("partition").note, "cut into 2 parts");
  EXPECT_LT(stats("fold").nodes_after, compiled->passes[0].nodes_after);
  for (const PassStats& pass : compiled->passes) EXPECT_GE(pass.nanos, 0);
  EXPECT_EQ(compiled->feeds.size(), 1u);
  EXPECT_EQ(compiled->fetches[0].dtype, DataType::kFloat);
  EXPECT_EQ(Run(*compiled), 13);
  EXPECT_NE(compiled->partitions[1].graph->FindNode("sum"), nullptr);
}

TEST_F(PipelineTest, PassesCanBeSwitchedOffWithoutChangingTheResult) {
  for (const PassInfo& pass : OptionalPasses()) options_.disabled_passes.insert(pass.name);
  const auto compiled = Compile(full_, signature_, context_);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(Names(*compiled), ElementsAre("prune", "lower", "place", "reads", "partition"));
  EXPECT_EQ(evaluator_.calls, 0);
  EXPECT_NE(compiled->partitions[0].graph->FindNode("b"), nullptr);
  EXPECT_EQ(Run(*compiled), 13);
}

TEST_F(PipelineTest, DumpsShowEachPassAndEachPart) {
  std::vector<std::string> dumped;
  options_.dump = [&](std::string_view pass, std::string_view part, const Graph& graph) {
    EXPECT_GT(graph.num_nodes(), 2);
    dumped.push_back(StrCat(pass, part.empty() ? "" : "@", part.substr(part.empty() ? 0 : part.size() - 5)));
  };
  ASSERT_TRUE(Compile(full_, signature_, context_).ok());
  std::vector<std::string> expected = {"prune", "inline", "lower", "place", "reads", "datasets"};
  for (int round = 0; round < 2; ++round) {
    for (const PassInfo& pass : OptionalPasses()) {
      const std::string_view name = pass.name;
      if (name != "inline" && name != "datasets" && name != "loop_products" && name != "layout" &&
          name != "fuse" && name != "loop_weights" && name != "elementwise" && name != "memory")
        expected.emplace_back(name);
    }
  }
  expected.insert(expected.end(), {"loop_products", "layout", "fuse", "loop_weights", "elementwise", "memory",
                                   "partition@CPU:0", "partition@CPU:1"});
  EXPECT_EQ(dumped, expected) << "the second round finds nothing to do";
}

TEST_F(PipelineTest, FullGraphIsOnlyReadAndItsPlacementIsKept) {
  ASSERT_TRUE(Place(&full_, context_.place).ok());
  full_.FindNode("a")->set_assigned_device(FakeDeviceName("0/CPU:1"));
  const std::string before = GraphText(full_);
  const auto compiled = Compile(full_, signature_, context_);
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(GraphText(full_), before);
  EXPECT_NE(compiled->partitions[1].graph->FindNode("a"), nullptr);
  EXPECT_EQ(Run(*compiled), 13);
}

TEST_F(PipelineTest, LoopsThatDoNotFitAreRefusedByName) {
  AddTestNode(&full_, "next", "NextIteration", {"x"}, {{"T", DataType::kFloat}});
  const Status status = Compile(full_, {{"x"}, {"next"}, {}}, context_).status();
  EXPECT_EQ(status.message(), "Node 'next' (op NextIteration) is not in a loop");
  EXPECT_TRUE(Compile(full_, signature_, context_).ok()) << "it does not matter where it is not needed";
}

TEST_F(PipelineTest, ErrorsOfPassesComeThrough) {
  EXPECT_THAT(Compile(full_, {{}, {"gone"}, {}}, context_).status().message(),
              HasSubstr("Tensor gone:0, specified in either"));
  full_.FindNode("sum")->set_requested_device("/gpu:0");
  EXPECT_THAT(Compile(full_, signature_, context_).status().message(),
              HasSubstr("Cannot assign a device for operation sum"));
}

TEST_F(PipelineTest, AWholeGraphIsCompiledWithoutPruning) {
  auto body = std::make_unique<Graph>(TestOps());
  AddTestNode(body.get(), "arg", "_Arg", {}, {{"T", DataType::kFloat}, {"index", 0}});
  AddTestNode(body.get(), "n", "Neg", {"arg"});
  AddTestNode(body.get(), "ret", "_Retval", {"n"}, {{"T", DataType::kFloat}, {"index", 0}});
  const auto compiled = CompileWhole(std::move(body), {}, context_);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->passes[0].pass, "inline");
  EXPECT_EQ(Run(*compiled), -10);
}

TEST_F(PipelineTest, ABrokenGraphIsCaughtByTheNameOfThePassThatLeftIt) {
  auto body = std::make_unique<Graph>(TestOps());
  AddTestNode(body.get(), "n", "Neg");
  const Status status = CompileWhole(std::move(body), {}, context_).status();
  EXPECT_EQ(status.message(), "Node 'n' (op Neg): input 0 is not connected; after pass 'inline'");
}

}  // namespace
}  // namespace millrace
