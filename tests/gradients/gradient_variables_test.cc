// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients with respect to the values of variables, and the graphs of the gradients of whole models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "autodiff/add_gradients.h"
#include "autodiff/expr.h"
#include "cases.h"
#include "millrace/session.h"
#include "op/op_registry.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class VariableGradientTest : public testing::Test {
 protected:
  VariableGradientTest() : graph_(OpRegistry::Global()), shapes_(graph_), b_(graph_, shapes_) {}

  Expr Placeholder(const std::string& name, const PartialShape& shape, DataType dtype = DataType::kDouble) {
    return Expr(b_, {b_.Add("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, name), 0});
  }
  Expr Node(const char* op, AttrMap attrs) { return Expr(b_, {b_.Add(op, {}, std::move(attrs)), 0}); }

  // Compares d y / d variable with finite differences; `assign` sets the variable to the placeholder
  // "value".
  void Check(const Expr& variable, const Expr& assign, const Expr& y, const Tensor& at) {
    ASSERT_EQ(b_.status(), Status());
    std::vector<Output> grads;
    ASSERT_EQ(AddGradients(&graph_, {y.output()}, {variable.output()}, {}, &grads), Status());
    ASSERT_TRUE(grads[0].IsSet());
    auto session = NewSession(SessionOptions());
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ((*session)->ExtendFrom(graph_), Status());
    const auto run = [&](const Tensor& value, const Output& fetch) {
      EXPECT_EQ((*session)->Run({{"value", value}}, {}, {assign.output().node->name()}, nullptr), Status());
      std::vector<Tensor> outputs;
      EXPECT_EQ((*session)->Run({}, {StrCat(fetch.node->name(), ":", fetch.index)}, {}, &outputs), Status());
      return outputs.empty() ? Tensor::Scalar(0.0) : outputs[0];
    };
    const Tensor gradient = run(at, grads[0]);
    ASSERT_EQ(gradient.shape(), at.shape());
    for (int64_t i = 0; i < at.num_elements(); ++i) {
      constexpr double kDelta = 1e-5;
      Tensor above = at.DeepCopy(), below = at.DeepCopy();
      above.data<double>()[i] += kDelta;
      below.data<double>()[i] -= kDelta;
      const double difference =
          run(above, y.output()).scalar<double>() - run(below, y.output()).scalar<double>();
      EXPECT_NEAR(gradient.data<double>()[i], difference / (2 * kDelta), 1e-6);
    }
  }
  // A sum whose gradients differ between the elements.
  Expr SumOfSquares(const Expr& x) { return Op("L2Loss", x); }

  Graph graph_;
  ShapeRefiner shapes_;
  GraphBuilder b_;
};

TEST_F(VariableGradientTest, OfAReferenceVariable) {
  const Expr variable = Node("VariableV2", {{"dtype", DataType::kDouble}, {"shape", PartialShape({2, 3})}});
  const Expr assign = Op("Assign", {variable, Placeholder("value", {2, 3})});
  const Expr read = Op("Identity", variable);
  // Once through a read and once directly from the variable.
  Check(variable, assign, SumOfSquares(Op("MatMul", {read, variable}, {{"transpose_b", true}})),
        Values({2, 3}));
}

TEST_F(VariableGradientTest, OfAReadOfAReferenceVariable) {
  const Expr variable = Node("VariableV2", {{"dtype", DataType::kDouble}, {"shape", PartialShape({3})}});
  const Expr assign = Op("Assign", {variable, Placeholder("value", {3})});
  const Expr read = Op("Identity", variable);
  Check(read, assign, SumOfSquares(read * read), Values({3}));
}

TEST_F(VariableGradientTest, ThroughAReferenceThatIsHandedOn) {
  const Expr variable = Node("VariableV2", {{"dtype", DataType::kDouble}, {"shape", PartialShape({3})}});
  const Expr assign = Op("Assign", {variable, Placeholder("value", {3})});
  const Expr same = Op("RefIdentity", variable);
  Check(variable, assign, SumOfSquares(Op("Mul", {same, same})), Values({3}));
}

class ResourceGradientTest : public VariableGradientTest {
 protected:
  void Make(const TensorShape& shape) {
    handle_ = Node("VarHandleOp", {{"dtype", DataType::kDouble}, {"shape", shape}, {"shared_name", "v"}});
    assign_ = Op("AssignVariableOp", {handle_, Placeholder("value", shape)});
    read_ = Op("ReadVariableOp", {handle_}, {{"dtype", DataType::kDouble}});
  }
  Expr Gather(const Tensor& indices, int batch_dims) {
    return Op("ResourceGather", {handle_, Expr(b_, b_.Constant(indices))},
              {{"dtype", DataType::kDouble}, {"batch_dims", batch_dims}});
  }
  Expr handle_, assign_, read_;
};

TEST_F(ResourceGradientTest, ThroughReads) {
  Make({2, 2});
  const Expr again = Op("ReadVariableOp", {handle_}, {{"dtype", DataType::kDouble}});
  Check(handle_, assign_, SumOfSquares(Op("MatMul", {read_, again})), Values({2, 2}));
}

TEST_F(ResourceGradientTest, OfTheValueRead) {
  Make({2, 2});
  Check(read_, assign_, SumOfSquares(read_ * read_), Values({2, 2}));
}

TEST_F(ResourceGradientTest, ThroughGather) {
  Make({3, 2});
  Check(handle_, assign_, SumOfSquares(Gather(Tensor::Vector<int32_t>({2, 0, 2}), 0)), Values({3, 2}));
}

TEST_F(ResourceGradientTest, ThroughGatherOfBatches) {
  Make({2, 3, 2});
  const Tensor indices = Tensor::From<int32_t>({2, 0, 2, 1}, TensorShape({2, 2}));
  Check(handle_, assign_, SumOfSquares(Gather(indices, 1)), Values({2, 3, 2}));
}

TEST_F(ResourceGradientTest, ThroughGatherNd) {
  Make({3, 2});
  const auto gather = [&](const Tensor& indices) {
    return Op("ResourceGatherNd", {handle_, Expr(b_, b_.Constant(indices))}, {{"dtype", DataType::kDouble}});
  };
  const Expr rows = gather(Tensor::From<int32_t>({2, 0, 2}, TensorShape({3, 1})));
  const Expr elements = gather(Tensor::From<int32_t>({2, 1, 0, 0, 2, 1}, TensorShape({3, 2})));
  Check(handle_, assign_, SumOfSquares(rows) + SumOfSquares(elements), Values({3, 2}));
}

TEST_F(VariableGradientTest, PreventGradientIsAnErrorWithItsReason) {
  const Expr x = Placeholder("x", {2});
  const Expr y = Op("PreventGradient", {x}, {{"message", "because"}});
  std::vector<Output> grads;
  const Status status = AddGradients(&graph_, {y.output()}, {x.output()}, {}, &grads);
  EXPECT_THAT(status.message(), HasSubstr("Gradient explicitly disabled. Reason: because"));
}

TEST_F(VariableGradientTest, StopGradientStops) {
  const Expr x = Placeholder("x", {2});
  std::vector<Output> grads;
  const Expr stopped = Op("StopGradient", x);
  ASSERT_EQ(AddGradients(&graph_, {stopped.output(), Op("Neg", stopped).output()}, {x.output()}, {}, &grads),
            Status());
  EXPECT_FALSE(grads[0].IsSet());
}

// The cost of a training step is that of the gradient's nodes, so models must not get useless ones.
TEST_F(VariableGradientTest, AModelWithABatchOfUnknownSizeNeedsNoShapeArithmetic) {
  const DataType f = DataType::kFloat;
  const Expr x = Placeholder("x", {-1, 784}, f), labels = Placeholder("labels", {-1, 10}, f);
  const Expr w1 = Node("VariableV2", {{"dtype", f}, {"shape", PartialShape({784, 100})}});
  const Expr b1 = Node("VariableV2", {{"dtype", f}, {"shape", PartialShape({100})}});
  const Expr w2 = Node("VariableV2", {{"dtype", f}, {"shape", PartialShape({100, 10})}});
  const Expr b2 = Node("VariableV2", {{"dtype", f}, {"shape", PartialShape({10})}});
  const Expr hidden = Op("Relu", Op("MatMul", {x, w1}) + b1);
  const Expr logits = Op("MatMul", {hidden, w2}) + b2;
  const Expr losses = Op("SoftmaxCrossEntropyWithLogits", {logits, labels});
  const Expr loss = Op("Mean", {losses, Vector(b_, DataType::kInt32, {0})});
  const int before = graph_.num_nodes();
  std::vector<Output> grads;
  ASSERT_EQ(AddGradients(&graph_, {loss.output()}, {w1.output(), b1.output(), w2.output(), b2.output()}, {},
                         &grads),
            Status());
  std::vector<std::string> ops;
  for (const auto* node : graph_.OpNodes()) {
    if (node->name().starts_with("gradients") && node->op_name() != "Const") ops.push_back(node->op_name());
  }
  std::sort(ops.begin(), ops.end());
  EXPECT_THAT(ops, testing::ElementsAre("Cast", "ExpandDims", "Fill", "MatMul", "MatMul", "MatMul", "Mul",
                                        "RealDiv", "ReluGrad", "Shape", "Size", "Sum", "Sum"));
  EXPECT_GT(graph_.num_nodes(), before);
}

}  // namespace
}  // namespace millrace
