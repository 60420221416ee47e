// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/env.h"
#include "io/memmapped_package.h"
#include "tensor/testing.h"
#include "tests/graph_tools/tools_testing.h"
#include "training/graph_tools/graph_tools.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class MemmappedTest : public ::testing::Test {
 protected:
  MemmappedTest() {
    std::string folder = ::testing::TempDir() + "/memmapped_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~MemmappedTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(MemmappedTest, ConvertedConstantsGiveTheSameResults) {
  DefBuilder b;
  b.Placeholder("x");
  const Tensor weights = RandomFloats({50, 60});
  b.Const("layer/weights", weights);
  b.Const("layer_weights", RandomFloats({60, 50}));
  b.Const("bias", RandomFloats({60}));
  b.Float("xw", "MatMul", {"x", "layer/weights"});
  b.Float("biased", "BiasAdd", {"xw", "bias"});
  b.Float("y", "MatMul", {"biased", "layer_weights"});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(WriteMemmappedPackage({}, Env::Posix(), Path("p"), &graph), Status());
  EXPECT_EQ(FindNode(graph, "layer/weights")->op(), "ImmutableConst");
  EXPECT_EQ(FindNode(graph, "layer/weights")->attr().at("memory_region_name").s(),
            "memmapped_package://layer_weights");
  EXPECT_EQ(FindNode(graph, "bias")->op(), "Const") << "small ones stay";

  tensorflow::GraphDef loaded;
  ASSERT_EQ(LoadMemmappedGraph(Env::Posix(), Path("p"), &loaded), Status());
  const Tensor x = RandomFloats({2, 50});
  const Session::Feeds feeds = {{"x", x}};
  ExpectTensorEqual(RunGraph(b.def(), feeds, {"y"})[0], RunGraph(loaded, feeds, {"y"})[0]);
  // The value outlives its session and the name of the file.
  const Tensor kept = RunGraph(loaded, {}, {"layer/weights"})[0];
  ASSERT_TRUE(Env::Posix().DeleteFile(Path("p")).ok());
  ExpectTensorEqual(weights, kept);
}

TEST_F(MemmappedTest, RegionsThatAreMissingOrTooSmallAreErrors) {
  ASSERT_TRUE(WriteFileAtomically(Env::Posix(), Path("raw"), std::string(16, '\1')).ok());
  const auto run = [&](const std::string& region, DataType dtype, const PartialShape& shape) {
    DefBuilder b;
    b.Node("c", "ImmutableConst", {}, {{"dtype", dtype}, {"shape", shape}, {"memory_region_name", region}});
    const auto session = SessionWith(b);
    std::vector<Tensor> values;
    return session->Run({}, {"c"}, {}, &values);
  };
  EXPECT_EQ(run(Path("raw"), DataType::kInt32, PartialShape({2, 2})), Status());
  EXPECT_EQ(run(Path("raw"), DataType::kBool, PartialShape({16})), Status());
  EXPECT_EQ(run(Path("raw"), DataType::kInt32, PartialShape({0})), Status());
  EXPECT_THAT(run(Path("raw"), DataType::kInt32, PartialShape({5})).message(), HasSubstr("too few"));
  EXPECT_FALSE(run(Path("raw"), DataType::kInt32, PartialShape({int64_t{1} << 40, int64_t{1} << 20})).ok());
  EXPECT_TRUE(errors::IsNotFound(run(Path("none"), DataType::kInt32, PartialShape({1}))));
  EXPECT_TRUE(errors::IsNotFound(run("memmapped_package://x", DataType::kInt32, PartialShape({1}))));
  EXPECT_FALSE(run(Path("raw") + "#memmapped_package://x", DataType::kInt32, PartialShape({1})).ok());
  EXPECT_FALSE(run(Path("raw"), DataType::kString, PartialShape({1})).ok());
  EXPECT_FALSE(run(Path("raw"), DataType::kInt32, PartialShape()).ok());
}

}  // namespace
}  // namespace millrace
