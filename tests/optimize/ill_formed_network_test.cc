// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Layers with random parameters, many of which are invalid, over inputs of unknown shape: the same errors and
// the same values without passes, with all, with each one alone and without it. And reads of a variable
// between updates, some of them invalid, compared with a model of it.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "compile/pipeline.h"
#include "graph/testing.h"
#include "millrace/session.h"
#include "tensor/testing.h"
#include "tests/optimize/first_seed.h"

namespace millrace {
namespace {

constexpr DataType kFloat = DataType::kFloat;

std::set<std::string> AllPassesBut(std::string_view kept) {
  std::set<std::string> disabled;
  for (const PassInfo& pass : OptionalPasses()) {
    if (pass.name != kept) disabled.insert(pass.name);
  }
  return disabled;
}

struct Result {
  Status status;
  std::vector<Tensor> values;
};

Result RunWithout(const Graph& graph, const std::vector<std::pair<std::string, Tensor>>& feeds,
                  const std::vector<std::string>& fetches, const std::set<std::string>& disabled) {
  SessionOptions options;
  options.inter_op_parallelism_threads = 1;
  options.disabled_passes = disabled;
  auto session = NewSession(options);
  EXPECT_TRUE(session.ok());
  Result result;
  result.status = (*session)->ExtendFrom(graph);
  if (result.status.ok()) result.status = (*session)->Run(feeds, fetches, {}, &result.values);
  return result;
}

// A chain of layers from the placeholder "x", of rank 2 or 4, to the node "y".
class Layers {
 public:
  Layers(Graph* graph, uint32_t seed) : graph_(graph), random_(seed), image_(Pick(3) == 0) {
    AttrMap attrs{{"dtype", kFloat}};
    if (Pick(2) == 0) attrs.Set("shape", image_ ? PartialShape({-1, 4, 4, 3}) : PartialShape({-1, 3}));
    AddTestNode(graph_, "x", "Placeholder", {}, std::move(attrs));
    std::string last = "x";
    const int length = 2 + Pick(4);
    for (int i = 0; i < length; ++i) {
      const std::string name = i + 1 == length ? "y" : StrCat("n", i);
      AddOne(name, last);
      last = name;
    }
  }
  Tensor Input() {
    const TensorShape shape = image_ ? TensorShape({1 + Pick(2), 4, 4, 3}) : TensorShape({1 + Pick(4), 3});
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    for (float& v : values) v = static_cast<float>(Pick(9) - 4);
    return Tensor::From(values, shape);
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  // Usually 3, the size of the last dimension.
  int64_t Size() { return Pick(5) == 0 ? 1 + Pick(4) : 3; }
  std::string Weights(const std::string& name, std::initializer_list<int64_t> dims) {
    const TensorShape shape(dims);
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    for (float& v : values) v = static_cast<float>(Pick(5) - 2);
    return Constant(name, Tensor::From(values, shape), kFloat);
  }
  std::string Constant(const std::string& name, const Tensor& value, DataType dtype) {
    AddTestNode(graph_, name, "Const", {}, {{"dtype", dtype}, {"value", value}});
    return name;
  }
  void Add(const std::string& name, std::string_view op, const std::vector<std::string>& inputs,
           AttrMap attrs = {}) {
    attrs.Set("T", kFloat);
    AddTestNode(graph_, name, op, inputs, std::move(attrs));
  }
  void AddOne(const std::string& name, const std::string& x) {
    const std::string c = name + "_c", d = name + "_d";
    const std::vector<int64_t> ones{1, 1, 1, 1};
    switch (Pick(10)) {
      case 0:
        return Add(name, "MatMul", {x, Weights(c, {Size(), Size()})});
      case 1:
        return Add(name, "Conv2D", {x, Weights(c, {1 + Pick(5), 1 + Pick(3), Size(), Size()})},
                   {{"strides", ones}, {"padding", Pick(2) == 0 ? "SAME" : "VALID"}});
      case 2:
        return Add(name, "BiasAdd", {x, Weights(c, {Size()})});
      case 3:
        return Add(name, Pick(2) == 0 ? "Relu" : "Tanh", {x});
      case 4: {
        static constexpr const char* kOps[] = {"Add",     "Sub",     "Mul",
                                               "Maximum", "RealDiv", "SquaredDifference"};
        const std::string other = Pick(3) == 0 ? "x" : Weights(c, {Size()});
        return Add(name, kOps[Pick(6)], {x, other});
      }
      case 5: {
        Weights(c, {Size()});
        Weights(d, {Size()});
        const std::vector<std::string> inputs{x, c, d, Weights(name + "_m", {Size()}),
                                              Weights(name + "_v", {Size()})};
        return Add(name, "FusedBatchNorm", inputs, {{"is_training", false}});
      }
      case 6: {
        const Tensor axes = Tensor::Vector<int32_t>({Pick(5) - 2});
        Constant(c, axes, DataType::kInt32);
        return Add(name, Pick(2) == 0 ? "Sum" : "Max", {x, c},
                   {{"Tidx", DataType::kInt32}, {"keep_dims", true}});
      }
      case 7: {
        const Tensor axis = Tensor::Scalar<int32_t>(Pick(4) - 1);
        Constant(c, axis, DataType::kInt32);
        return Add(name, "ConcatV2", {x, "x", c}, {{"N", 2}, {"Tidx", DataType::kInt32}});
      }
      case 8: {  // a branch that is taken, or not, as is known before the step
        Constant(c, Tensor::Scalar<bool>(Pick(2) == 0), DataType::kBool);
        Add(d, "Switch", {x, c});
        Add(name + "_n", "Neg", {d + ":1"});
        return Add(name, "Merge", {d, name + "_n"}, {{"N", 2}});
      }
      default: {  // the same computation twice
        Weights(c, {Size()});
        Add(d, "Mul", {x, c});
        Add(name + "_e", "Mul", {x, c});
        return Add(name, "Add", {d, name + "_e"});
      }
    }
  }

  Graph* const graph_;
  std::mt19937 random_;
  const bool image_;
};

TEST(IllFormedNetwork, ErrorsAreReportedWithEachPassAndWithoutIt) {
  const auto passes = OptionalPasses();
  int good = 0, bad = 0;
  const uint32_t first = FirstSeed();
  for (uint32_t seed = first; seed < first + 1500; ++seed) {
    Graph graph(OpRegistry::Global());
    Layers layers(&graph, seed);
    graph.FixupSourceAndSinkEdges();
    const Tensor x = layers.Input();
    const std::string pass = passes[seed % passes.size()].name;
    const Result plain = RunWithout(graph, {{"x", x}}, {"y"}, {"all"});
    for (const std::set<std::string>& disabled :
         std::vector<std::set<std::string>>{{}, {pass}, AllPassesBut(pass)}) {
      const Result other = RunWithout(graph, {{"x", x}}, {"y"}, disabled);
      ASSERT_EQ(plain.status.code(), other.status.code())
          << "seed " << seed << ", " << pass << ": " << plain.status << " without passes, " << other.status
          << " with them\n"
          << GraphText(graph);
      if (!plain.status.ok()) continue;
      ASSERT_TRUE(TensorsNear(plain.values[0], other.values[0], 1e-4, 1e-4))
          << "seed " << seed << ", " << pass << "\n"
          << GraphText(graph);
    }
    ++(plain.status.ok() ? good : bad);
  }
  // There are many of both kinds.
  EXPECT_GT(good, 300);
  EXPECT_GT(bad, 300);
}

// Updates of the variable "v" and reads of it, one after the other, and the expected values of the reads.
struct Program {
  explicit Program(uint32_t seed, Graph* graph) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    AttrMap attrs{{"dtype", kFloat}, {"shape", PartialShape({2})}};
    AddTestNode(graph, "v", "VariableV2", {}, std::move(attrs));
    bool initialized = false;
    float now = 0;
    std::string last, read;
    const int length = 3 + pick(8);
    for (int i = 0; i < length; ++i) {
      const std::string name = StrCat("s", i), c = name + "_c";
      std::vector<std::string> inputs;
      std::string op;
      const int kind = i == 0 && pick(8) != 0 ? 0 : pick(6);
      if (kind <= 2) {
        static constexpr const char* kUpdates[] = {"Assign", "AssignAdd", "AssignSub"};
        op = kUpdates[kind];
        const bool fits = pick(16) != 0;
        const auto by = static_cast<float>(pick(9));
        const Tensor value = Tensor::From(std::vector<float>(fits ? 2 : 3, by), TensorShape({fits ? 2 : 3}));
        AddTestNode(graph, c, "Const", {}, {{"dtype", kFloat}, {"value", value}});
        inputs = {"v", c};
        if (code == ErrorCode::kOk && kind > 0 && !initialized) code = ErrorCode::kFailedPrecondition;
        if (code == ErrorCode::kOk && !fits) code = ErrorCode::kInvalidArgument;
        initialized |= kind == 0;
        now = kind == 0 ? by : kind == 1 ? now + by : now - by;
      } else if (kind == 3 || read.empty()) {
        op = "Identity";
        inputs = {"v"};
        read = name;
        if (code == ErrorCode::kOk && !initialized) code = ErrorCode::kFailedPrecondition;
      } else {  // uses a read, possibly one before the last update
        op = "Neg";
        inputs = {read};
        fetches.push_back(name);
        expected.push_back(-now);
      }
      if (!last.empty()) inputs.push_back("^" + last);
      AddTestNode(graph, name, op, inputs, {{"T", kFloat}});
      last = name;
    }
    AddTestNode(graph, "end", "Const", last.empty() ? std::vector<std::string>{} : std::vector{"^" + last},
                {{"dtype", kFloat}, {"value", Tensor::Scalar(0.f)}});
    fetches.push_back("end");
  }

  std::vector<std::string> fetches;
  std::vector<float> expected;
  ErrorCode code = ErrorCode::kOk;
};

TEST(IllFormedNetwork, ReadsOfVariablesSeeTheUpdatesBeforeTheirUse) {
  int good = 0, bad = 0;
  const uint32_t first = FirstSeed();
  for (uint32_t seed = first; seed < first + 600; ++seed) {
    Graph graph(OpRegistry::Global());
    const Program program(seed, &graph);
    graph.FixupSourceAndSinkEdges();
    for (const bool optimized : {false, true}) {
      const std::set<std::string> disabled =
          optimized ? std::set<std::string>() : std::set<std::string>{"all"};
      const Result result = RunWithout(graph, {}, program.fetches, disabled);
      ASSERT_EQ(result.status.code(), program.code) << "seed " << seed << ": " << result.status << "\n"
                                                    << GraphText(graph);
      for (size_t i = 0; result.status.ok() && i < program.expected.size(); ++i) {
        ASSERT_EQ(result.values[i].data<float>()[0], program.expected[i])
            << "seed " << seed << ", " << program.fetches[i] << "\n"
            << GraphText(graph);
      }
    }
    ++(program.code == ErrorCode::kOk ? good : bad);
  }
  EXPECT_GT(good, 200);
  EXPECT_GT(bad, 50);
}

}  // namespace
}  // namespace millrace
