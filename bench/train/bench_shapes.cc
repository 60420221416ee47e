// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/train/bench_shapes.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "bench/bench_util.h"
#include "graph/function_def_builder.h"
#include "graph/function_library.h"
#include "millrace/tensor.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace::bench {
namespace {

const AttrMap& FloatType() {
  static const auto* const kType = new AttrMap{{"T", DataType::kFloat}};
  return *kType;
}

class Builder {
 public:
  Builder() : x_(Add("x", "Placeholder", {{"dtype", DataType::kFloat}, {"shape", PartialShape({8})}}, {})) {}

  Graph& graph() { return *graph_; }
  Node* x() { return x_; }

  Node* Add(const std::string& name, std::string_view op, AttrMap attrs, const std::vector<Node*>& inputs) {
    auto node = graph_->AddNode(name, op, std::move(attrs));
    CheckOk(node.status());
    for (size_t i = 0; i < inputs.size(); ++i) graph_->AddEdge(inputs[i], 0, *node, static_cast<int>(i));
    return *node;
  }
  Node* Add(std::string_view op, const std::vector<Node*>& inputs, const AttrMap& attrs = FloatType()) {
    return Add("n" + std::to_string(next_++), op, attrs, inputs);
  }
  // No two nodes are equal.
  Node* AddConst() {
    const Tensor value = Tensor::Scalar(static_cast<float>(next_));
    return Add("Const", {}, {{"dtype", DataType::kFloat}, {"value", value}});
  }
  std::unique_ptr<Graph> Finish(Node* result) {
    Add("result", "Identity", FloatType(), {result});
    graph_->FixupSourceAndSinkEdges();
    return std::move(graph_);
  }

 private:
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>(OpRegistry::Global());
  int next_ = 0;
  Node* x_;
};

std::unique_ptr<Graph> Chain(int n) {
  Builder b;
  Node* at = b.x();
  for (int i = 0; i < n; ++i) at = b.Add(i % 2 == 0 ? "Tanh" : "Sin", {at});
  return b.Finish(at);
}

std::unique_ptr<Graph> FanOut(int n) {
  Builder b;
  std::vector<Node*> terms;
  for (int i = 0; i < n / 3; ++i) terms.push_back(b.Add("Tanh", {b.Add("Atan2", {b.x(), b.AddConst()})}));
  return b.Finish(b.Add("AddN", terms, {{"T", DataType::kFloat}, {"N", static_cast<int64_t>(terms.size())}}));
}

std::unique_ptr<Graph> Grid(int n) {
  Builder b;
  const int width = static_cast<int>(std::sqrt(n));
  std::vector<Node*> row(static_cast<size_t>(width), b.x());
  for (int i = 0; i < width; ++i) {
    for (size_t j = 0; j < row.size(); ++j) row[j] = b.Add("Atan2", {row[j], row[j == 0 ? 0 : j - 1]});
  }
  return b.Finish(row.back());
}

// Nodes that are computed from constants only.
std::unique_ptr<Graph> Constants(int n) {
  Builder b;
  Node* at = b.AddConst();
  for (int i = 0; i < n / 2; ++i) at = b.Add("Atan2", {at, b.AddConst()});
  return b.Finish(b.Add("Atan2", {b.x(), at}));
}

// Each node waits for the previous one by a control edge.
std::unique_ptr<Graph> ControlChain(int n) {
  Builder b;
  Node* before = b.x();
  for (int i = 0; i < n; ++i) {
    Node* node = b.Add("Tanh", {b.x()});
    b.graph().AddControlEdge(before, node);
    before = node;
  }
  return b.Finish(before);
}

// One NoOp waits for half of the nodes, and the other half wait for it.
std::unique_ptr<Graph> ControlHub(int n) {
  Builder b;
  Node* hub = b.Add("NoOp", {}, {});
  std::vector<Node*> terms;
  for (int i = 0; i < n / 4; ++i) b.graph().AddControlEdge(b.Add("Atan2", {b.x(), b.AddConst()}), hub);
  for (int i = 0; i < n / 4; ++i) {
    terms.push_back(b.Add("Atan2", {b.AddConst(), b.x()}));
    b.graph().AddControlEdge(hub, terms.back());
  }
  return b.Finish(b.Add("AddN", terms, {{"T", DataType::kFloat}, {"N", static_cast<int64_t>(terms.size())}}));
}

// Variables, each with its initial value, all initialised by one group and then added.
std::unique_ptr<Graph> Variables(int n) {
  Builder b;
  Node* init = b.Add("NoOp", {}, {});
  Node* sum = b.x();
  for (int i = 0; i < n / 5; ++i) {
    Node* variable = b.Add("VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({8})}});
    Node* zero = b.AddConst();
    Node* fill = b.Add("Atan2", {b.x(), zero});
    b.graph().AddControlEdge(b.Add("Assign", {variable, fill}), init);
    Node* read = b.Add("Sub", {sum, variable});
    b.graph().AddControlEdge(init, read);
    sum = read;
  }
  return b.Finish(sum);
}

// Additions of constants.
std::unique_ptr<Graph> Sums(int n) {
  Builder b;
  Node* at = b.x();
  for (int i = 0; i < n / 3; ++i) at = b.Add("Add", {b.AddConst(), b.Add("Neg", {at})});
  return b.Finish(at);
}

// Nodes with very many outputs, all of which are used, and whose values are known.
std::unique_ptr<Graph> ManyOutputs(int n) {
  Builder b;
  const auto count = static_cast<int64_t>(n / 3);
  Node* split = b.Add("ShapeN", std::vector<Node*>(static_cast<size_t>(count), b.x()),
                      {{"T", DataType::kFloat}, {"N", count}});
  std::vector<Node*> terms;
  for (int i = 0; i < count; ++i) {
    Node* cast = b.Add("Reshape", {}, {{"T", DataType::kFloat}});
    b.graph().AddEdge(b.x(), 0, cast, 0);
    b.graph().AddEdge(split, i, cast, 1);
    terms.push_back(b.Add("Tanh", {cast}));
  }
  return b.Finish(b.Add("AddN", terms, {{"T", DataType::kFloat}, {"N", count}}));
}

// Switches on constants whose dead outputs reach no Merge, so that nothing can be removed.
std::unique_ptr<Graph> DeadSwitches(int n) {
  Builder b;
  Node* pred = b.Add("Const", {}, {{"dtype", DataType::kBool}, {"value", Tensor::Scalar(true)}});
  Node* at = b.x();
  Node* live = b.x();
  for (int i = 0; i < n / 2; ++i) {
    Node* branch = b.Add("Switch", {live, pred});
    at = b.Add("Atan2", {at, branch});
  }
  return b.Finish(at);
}

// One branch of very many nodes whose shapes are used.
std::unique_ptr<Graph> WideBranch(int n) {
  Builder b;
  Node* pred = b.Add("Less", {b.AddConst(), b.AddConst()});
  Node* sw = b.Add("Switch", {b.x(), b.Add("LogicalNot", {pred}, {})});
  std::vector<Node*> terms;
  for (int i = 0; i < n / 4; ++i) {
    Node* shape = b.Add("Shape", {}, FloatType());
    b.graph().AddEdge(sw, 1, shape, 0);
    Node* sum = b.Add(
        "Atan2",
        {b.Add("Cast", {shape}, {{"SrcT", DataType::kInt32}, {"DstT", DataType::kFloat}}), b.AddConst()});
    terms.push_back(sum);
  }
  return b.Finish(b.Add("AddN", terms, {{"T", DataType::kFloat}, {"N", static_cast<int64_t>(terms.size())}}));
}

// Nested loops of the greatest allowed depth, each with a constant from outside.
std::unique_ptr<Graph> NestedLoops(int n) {
  Builder b;
  constexpr int kDepth = 990;
  Node* at = b.x();
  for (int first = 0; first < n / 4; first += kDepth) {
    Node* outer = b.AddConst();
    for (int i = 0; i < kDepth; ++i) {
      const AttrMap enter = {
          {"T", DataType::kFloat}, {"frame_name", "f" + std::to_string(first + i)}, {"is_constant", true}};
      outer = b.Add("Enter", {outer}, enter);
      at = b.Add("Atan2", {b.Add("Enter", {at}, enter), outer});
    }
    for (int i = 0; i < kDepth; ++i) at = b.Add("Exit", {at});
  }
  return b.Finish(at);
}

// Functions of ten nodes, each of which calls the next.
std::unique_ptr<Graph> Functions(int n) {
  Builder b;
  const int count = std::max(1, n / 10);
  tensorflow::FunctionDefLibrary library;
  for (int i = 0; i < count; ++i) {
    FunctionBuilder f("F" + std::to_string(i));
    f.Arg("x: float").Ret("y: float");
    std::string at = "x";
    for (int j = 0; j < 9; ++j) {
      const std::string name = "n" + std::to_string(j);
      f.Node(name, j % 2 == 0 ? "Tanh" : "Sin", {at}, FloatType());
      at = name + ":y";
    }
    if (i + 1 < count) {
      f.Node("call", "F" + std::to_string(i + 1), {at});
      at = "call:y";
    }
    CheckOk(f.Return("y", at).Build(library.add_function()));
  }
  CheckOk(b.graph().functions().AddLibrary(library));
  return b.Finish(b.Add("F0", {b.x()}, {}));
}

}  // namespace

const std::vector<GraphShape>& GraphShapes() {
  static const auto* const kShapes = new std::vector<GraphShape>{
      {"chain", "unary nodes, one after the other", Chain},
      {"fan-out", "one value for many nodes, and a sum of all", FanOut},
      {"grid", "binary nodes of two neighbours each", Grid},
      {"constants", "a chain of constants", Constants},
      {"sums", "of constants", Sums},
      {"many outputs", "of one node, all of them known", ManyOutputs},
      {"dead switches", "on constants, that have to stay", DeadSwitches},
      {"wide branch", "shapes of a value that may be dead", WideBranch},
      {"nested loops", "and what is constant in all of them", NestedLoops},
      {"control chain", "nodes that wait for one another", ControlChain},
      {"control hub", "many wait for one that waits for many", ControlHub},
      {"variables", "assigned, and then read", Variables},
      {"functions", "of ten nodes, nested", Functions},
  };
  return *kShapes;
}

}  // namespace millrace::bench
