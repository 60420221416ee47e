// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors in a graph are reported with the optimising passes and without them, and correct graphs give
// the same values: chains of ops with random parameters, most of them invalid, over inputs of unknown
// shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/testing.h"
#include "millrace/session.h"
#include "tensor/testing.h"
#include "tests/optimize/first_seed.h"

namespace millrace {
namespace {

constexpr DataType kFloat = DataType::kFloat;

// A chain of one to four ops that rearrange or compute, from the placeholder "x" to the node "y".
class Chain {
 public:
  Chain(Graph* graph, uint32_t seed, bool shape_known) : graph_(graph), random_(seed) {
    AttrMap attrs{{"dtype", kFloat}};
    if (shape_known) attrs.Set("shape", PartialShape({-1, 3, 2}));
    AddTestNode(graph_, "x", "Placeholder", {}, std::move(attrs));
    std::string last = "x";
    const int length = 1 + Pick(4);
    for (int i = 0; i < length; ++i) {
      const std::string name = i + 1 == length ? "y" : StrCat("n", i);
      AddOne(name, last);
      last = name;
    }
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  std::string Indices(const std::string& name, int most, int lowest, int highest) {
    std::vector<int32_t> values(static_cast<size_t>(1 + Pick(most)));
    for (int32_t& v : values) v = lowest + Pick(highest - lowest + 1);
    const Tensor value = Tensor::Vector<int32_t>(values);
    AddTestNode(graph_, name, "Const", {}, {{"dtype", DataType::kInt32}, {"value", value}});
    return name;
  }
  std::string Permutation(const std::string& name) {
    std::vector<int32_t> values(static_cast<size_t>(1 + Pick(4)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
    if (Pick(2) == 0) std::shuffle(values.begin(), values.end(), random_);
    if (Pick(8) == 0) values[0] = Pick(5) - 1;
    const Tensor value = Tensor::Vector<int32_t>(values);
    AddTestNode(graph_, name, "Const", {}, {{"dtype", DataType::kInt32}, {"value", value}});
    return name;
  }
  void AddOne(const std::string& name, const std::string& x) {
    const std::string c = name + "_c";
    switch (Pick(9)) {
      case 0:
        return Add(name, "Transpose", {x, Permutation(c)}, {{"Tperm", DataType::kInt32}});
      case 1:
        return Add(name, "Reshape", {x, Indices(c, 3, -1, 6)}, {{"Tshape", DataType::kInt32}});
      case 2:
        return Add(name, "ReverseV2", {x, Indices(c, 2, -2, 3)}, {{"Tidx", DataType::kInt32}});
      case 3:
        return Add(name, "Squeeze", {x}, {{"squeeze_dims", std::vector<int64_t>{Pick(4) - 1}}});
      case 4: {
        const Tensor axis = Tensor::Scalar<int32_t>(Pick(6) - 2);
        AddTestNode(graph_, c, "Const", {}, {{"dtype", DataType::kInt32}, {"value", axis}});
        return Add(name, "ExpandDims", {x, c}, {{"Tdim", DataType::kInt32}});
      }
      case 5:
        return Add(name, "Slice", {x, Indices(c, 3, 0, 2), Indices(name + "_d", 3, -1, 3)},
                   {{"Index", DataType::kInt32}});
      case 6: {  // a sum with a tensor that may be incompatible
        const Tensor zero = Tensor::Vector(std::vector<float>(static_cast<size_t>(1 + Pick(4)), 0.f));
        AddTestNode(graph_, c, "Const", {}, {{"dtype", kFloat}, {"value", zero}});
        return Add(name, "Add", {x, c}, {});
      }
      case 7: {
        const int64_t axis = Pick(3);
        Add(c, "Pack", {x, Pick(2) == 0 ? x : "x"}, {{"N", 2}, {"axis", axis}});
        Add(name + "_d", "Unpack", {c}, {{"num", 2}, {"axis", axis}});
        return Add(name, "Identity", {name + "_d:0"}, {});
      }
      default: {
        const int64_t num = 1 + Pick(3);
        const int64_t axis = Pick(3);
        Add(c, "Unpack", {x}, {{"num", num}, {"axis", axis}});
        std::vector<std::string> parts;
        for (int64_t i = 0; i < num; ++i) parts.push_back(StrCat(c, ":", i));
        return Add(name, "Pack", parts, {{"N", num}, {"axis", Pick(3) == 0 ? int64_t{0} : axis}});
      }
    }
  }
  void Add(const std::string& name, std::string_view op, const std::vector<std::string>& inputs,
           AttrMap attrs) {
    attrs.Set("T", kFloat);
    AddTestNode(graph_, name, op, inputs, std::move(attrs));
  }

  Graph* const graph_;
  std::mt19937 random_;
};

std::string Describe(const Graph& graph) {
  std::string text;
  for (int id = 2; id < graph.num_node_ids(); ++id) {
    const Node& node = *graph.node(id);
    text += StrCat(id == 2 ? "" : "; ", node.name(), " = ", node.op_name(), "(");
    if (node.op_name() == "Const") text += node.Attr<Tensor>("value")->ToString();
    for (int i = 0; i < node.num_inputs(); ++i)
      text += StrCat(i == 0 ? "" : ", ", node.in_edges()[i]->src->name());
    text += ")";
  }
  return text;
}

struct Result {
  Status status;
  Tensor value;
};

Result RunOnce(const Graph& graph, const Tensor& x, bool passes) {
  SessionOptions options;
  if (!passes) options.disabled_passes = {"all"};
  auto session = NewSession(options);
  EXPECT_TRUE(session.ok());
  Result result;
  result.status = (*session)->ExtendFrom(graph);
  std::vector<Tensor> outputs;
  if (result.status.ok()) result.status = (*session)->Run({{"x", x}}, {"y"}, {}, &outputs);
  if (!outputs.empty()) result.value = outputs[0];
  return result;
}

TEST(IllFormed, APackAlongAMissingAxisIsKeptBeforeItsUnpack) {
  for (const int64_t axis : {-2, -1, 0, 1, 2}) {
    Graph graph(OpRegistry::Global());
    AddTestNode(&graph, "x", "Placeholder", {}, {{"dtype", kFloat}});
    const Tensor six = Tensor::Vector<int32_t>({6});
    AddTestNode(&graph, "six", "Const", {}, {{"dtype", DataType::kInt32}, {"value", six}});
    AddTestNode(&graph, "flat", "Reshape", {"x", "six"}, {{"T", kFloat}});
    AddTestNode(&graph, "packed", "Pack", {"flat", "flat"}, {{"T", kFloat}, {"N", 2}, {"axis", axis}});
    AddTestNode(&graph, "parts", "Unpack", {"packed"}, {{"T", kFloat}, {"num", 2}, {"axis", axis}});
    AddTestNode(&graph, "y", "Identity", {"parts:1"}, {{"T", kFloat}});
    graph.FixupSourceAndSinkEdges();
    const Tensor x = Tensor::From(std::vector<float>(6, 1.0F), TensorShape({3, 2}));
    const ErrorCode wanted = axis == 2 ? ErrorCode::kInvalidArgument : ErrorCode::kOk;
    for (const bool passes : {false, true})
      EXPECT_EQ(RunOnce(graph, x, passes).status.code(), wanted) << axis;
  }
}

TEST(IllFormed, ErrorsAreReportedWithPassesAndWithout) {
  int good = 0, bad = 0;
  const uint32_t first = FirstSeed();
  for (uint32_t seed = first; seed < first + 4000; ++seed) {
    Graph graph(OpRegistry::Global());
    const Chain chain(&graph, seed, seed % 2 == 1);
    graph.FixupSourceAndSinkEdges();
    std::vector<float> values(static_cast<size_t>(6 * (1 + seed % 3)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const auto rows = static_cast<int64_t>(1 + seed % 3);
    const Tensor x = Tensor::From(values, TensorShape({rows, 3, 2}));
    const Result plain = RunOnce(graph, x, false);
    const Result optimised = RunOnce(graph, x, true);
    ASSERT_EQ(plain.status.code(), optimised.status.code())
        << "seed " << seed << ", " << Describe(graph) << ": " << plain.status << " without passes, "
        << optimised.status << " with them";
    ++(plain.status.ok() ? good : bad);
    if (plain.status.ok()) {
      ASSERT_TRUE(TensorsNear(plain.value, optimised.value, 0, 0)) << "seed " << seed;
    }
  }
  // There are many of both kinds.
  EXPECT_GT(good, 300);
  EXPECT_GT(bad, 1000);
}

}  // namespace
}  // namespace millrace
