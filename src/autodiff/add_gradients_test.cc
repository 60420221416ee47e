// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/add_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "autodiff/gradient_context.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Status IdentityGrad(GradientContext& c) {
  c.SetInputGrad(0, c.grad(0));
  return c.status();
}
Status MulGrad(GradientContext& c) {
  if (c.wants(0)) c.SetInputGrad(0, c.grad(0) * c.input(1));
  if (c.wants(1)) c.SetInputGrad(1, c.grad(0) * c.input(0));
  return c.status();
}
Status AddGrad(GradientContext& c) {
  c.SetInputGrad(0, c.grad(0));
  c.SetInputGrad(1, c.grad(0));
  return c.status();
}
Status AddNGrad(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.SetInputGrad(i, c.grad(0));
  return c.status();
}
Status TwoOutGrad(GradientContext& c) {
  c.SetInputGrad(0, c.has_grad(0) && c.has_grad(1) ? c.grad(0) + c.grad(1)
                    : c.has_grad(0)                ? c.grad(0)
                                                   : c.grad(1));
  return c.status();
}
Status WrongTypeGrad(GradientContext& c) {
  c.SetInputGrad(0, CastTo(c.grad(0), DataType::kDouble));
  return c.status();
}
Status BrokenGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("NoSuchOp", c.grad(0)));
  return c.status();
}

// Ops that are declared here, so that this test does not depend on the registered ones.
class AddGradientsTest : public testing::Test {
 protected:
  AddGradientsTest() : graph_(Ops()) {
    EXPECT_TRUE(registry_.Register("Identity", IdentityGrad).ok());
    EXPECT_TRUE(registry_.Register("Mul", MulGrad).ok());
    EXPECT_TRUE(registry_.Register("Add", AddGrad).ok());
    EXPECT_TRUE(registry_.Register("AddN", AddNGrad).ok());
    EXPECT_TRUE(registry_.Register("TwoOut", TwoOutGrad).ok());
    EXPECT_TRUE(registry_.Register("WrongType", WrongTypeGrad).ok());
    EXPECT_TRUE(registry_.Register("Broken", BrokenGrad).ok());
    EXPECT_TRUE(registry_.Register("Cast", IdentityGrad).ok());
    EXPECT_TRUE(registry_.Register("Read", IdentityGrad).ok());
    EXPECT_TRUE(registry_.RegisterNotDifferentiable("Stop").ok());
  }

  static const OpRegistry& Ops() {
    static const OpRegistry* const ops = [] {
      auto* registry = new OpRegistry;
      const auto add = [&](OpBuilder builder) { EXPECT_TRUE(registry->Register(builder).ok()); };
      add(OpBuilder("X")
              .Output("y: T")
              .Attr("T: type = DT_FLOAT")
              .Attr("shape: shape")
              .Shape(shape_fns::Explicit));
      add(OpBuilder("Ref").Output("y: Ref(float)").Shape(shape_fns::Scalar));
      add(OpBuilder("Handle").Output("y: resource").Shape(shape_fns::Scalar));
      add(OpBuilder("Read").Input("x: resource").Output("y: float").Shape(shape_fns::Scalar));
      for (const char* name : {"Identity", "Stop", "NoGradient", "WrongType", "Broken"}) {
        add(OpBuilder(name).Input("x: T").Output("y: T").Attr("T: type").Shape(shape_fns::Unchanged));
      }
      for (const char* name : {"Mul", "Add"}) {
        add(OpBuilder(name).Input("x: T").Input("y: T").Output("z: T").Attr("T: type").Shape(
            shape_fns::BroadcastBinary));
      }
      add(OpBuilder("TwoOut").Input("x: T").Output("a: T").Output("b: T").Attr("T: type").Shape(
          [](InferenceContext& c) {
            c.set_output(0, c.input(0));
            c.set_output(1, c.input(0));
            return Status();
          }));
      add(OpBuilder("AddN")
              .Input("inputs: N * T")
              .Output("sum: T")
              .Attr("N: int >= 1")
              .Attr("T: type")
              .Shape(shape_fns::Unchanged));
      add(OpBuilder("Cast")
              .Input("x: SrcT")
              .Output("y: DstT")
              .Attr("SrcT: type")
              .Attr("DstT: type")
              .Shape(shape_fns::Unchanged));
      add(OpBuilder("Const")
              .Output("output: dtype")
              .Attr("value: tensor")
              .Attr("dtype: type")
              .Shape([](InferenceContext& c) {
                MR_ASSIGN_OR_RETURN(const Tensor value, c.Attr<Tensor>("value"));
                MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(value.shape()));
                c.set_output(0, shape);
                return Status();
              }));
      add(OpBuilder("Shape")
              .Input("input: T")
              .Output("output: out_type")
              .Attr("T: type")
              .Attr("out_type: type = DT_INT32"));
      add(OpBuilder("Fill").Input("dims: int32").Input("value: T").Output("output: T").Attr("T: type"));
      return registry;
    }();
    return *ops;
  }

  Output Add(const std::string& name, const std::string& op, const std::vector<Output>& inputs = {},
             AttrMap attrs = {}, const std::string& device = "") {
    if (!inputs.empty() && op != "Read") {
      attrs.Set(op == "Cast" ? "SrcT" : "T", BaseType(inputs[0].node->output_type(inputs[0].index)));
    }
    const auto node = graph_.AddNode(name, op, attrs, device);
    EXPECT_TRUE(node.ok()) << node.status();
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph_.AddEdge(inputs[i].node, inputs[i].index, *node, static_cast<int>(i));
    }
    return {*node, 0};
  }
  Output X(const std::string& name, PartialShape shape = PartialShape({}), DataType type = DataType::kFloat) {
    return Add(name, "X", {}, {{"shape", std::move(shape)}, {"T", type}});
  }
  Status Run(const std::vector<Output>& ys, const std::vector<Output>& xs,
             const std::vector<Output>& grad_ys = {}) {
    GradientOptions options;
    options.registry = &registry_;
    return AddGradients(&graph_, ys, xs, grad_ys, options, &grads_);
  }
  // The formula behind a tensor: "Mul(x, Const)".
  std::string Formula(const Output& tensor) const {
    if (!tensor.IsSet()) return "none";
    const Node& node = *tensor.node;
    if (node.num_inputs() == 0) return node.op_name() == "Const" ? "Const" : node.name();
    std::string text = node.op_name() + "(";
    for (const Edge* edge : node.data_in_edges()) {
      text += (edge->dst_input == 0 ? "" : ", ") + Formula({edge->src, edge->src_output});
    }
    return text + ")";
  }

  Graph graph_;
  GradientRegistry registry_;
  std::vector<Output> grads_;
};

TEST_F(AddGradientsTest, OfAProductIsTheOtherFactor) {
  const Output x = X("x"), y = X("y");
  const Output z = Add("z", "Mul", {x, y});
  ASSERT_EQ(Run({z}, {x, y}), Status());
  EXPECT_EQ(Formula(grads_[0]), "Mul(Const, y)");
  EXPECT_EQ(Formula(grads_[1]), "Mul(Const, x)");
  EXPECT_EQ(grads_[0].node->name(), "gradients/z_grad/Mul");
  EXPECT_EQ(grads_[1].node->name(), "gradients/z_grad/Mul_1");
  EXPECT_EQ(graph_.Validate(), Status());
}

TEST_F(AddGradientsTest, OfATensorItselfIsOnes) {
  const Output x = X("x", {2, 3});
  ASSERT_EQ(Run({x}, {x}), Status());
  EXPECT_EQ(Formula(grads_[0]), "Fill(Const, Const)");
}

TEST_F(AddGradientsTest, OnesTakeAnUnknownShapeFromTheTensor) {
  const Output x = X("x", {-1, 3});
  ASSERT_EQ(Run({x}, {x}), Status());
  EXPECT_EQ(Formula(grads_[0]), "Fill(Shape(x), Const)");
}

TEST_F(AddGradientsTest, ContributionsOfSeveralConsumersAreAdded) {
  const Output x = X("x"), dy = X("dy");
  const Output sum = Add("sum", "Add", {Add("a", "Identity", {x}), Add("b", "Add", {x, x})});
  ASSERT_EQ(Run({sum}, {x}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "AddN(dy, dy, dy)");
}

TEST_F(AddGradientsTest, EveryYContributes) {
  const Output x = X("x"), d0 = X("d0"), d1 = X("d1");
  ASSERT_EQ(Run({Add("a", "Identity", {x}), Add("b", "Identity", {x})}, {x}, {d0, d1}), Status());
  EXPECT_EQ(Formula(grads_[0]), "AddN(d0, d1)");
}

TEST_F(AddGradientsTest, UnreachableOrStoppedIsUnset) {
  const Output x = X("x"), other = X("other"), dy = X("dy");
  const Output y = Add("y", "Add", {Add("stop", "Stop", {x}), Add("i", "Identity", {x})});
  ASSERT_EQ(Run({y}, {other, x}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "none");
  EXPECT_EQ(Formula(grads_[1]), "dy");
  ASSERT_EQ(Run({{graph_.FindNode("stop"), 0}}, {x}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "none");
}

TEST_F(AddGradientsTest, NothingIsBuiltForWhatCanNotBeDifferentiated) {
  const Output x = X("x"), dy = X("dy");
  const Output y = Add("y", "Mul", {x, Add("stop", "Stop", {x})});
  const int nodes = graph_.num_nodes();
  ASSERT_EQ(Run({y}, {x}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "Mul(dy, Stop(x))");
  EXPECT_EQ(graph_.num_nodes(), nodes + 1);
}

TEST_F(AddGradientsTest, AnXThatCanNotBeDifferentiatedItselfMayBeAnX) {
  const Output x = X("x"), dy = X("dy");
  const Output stop = Add("stop", "Stop", {x});
  ASSERT_EQ(Run({Add("y", "Mul", {x, stop})}, {x, stop}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "Mul(dy, Stop(x))");
  EXPECT_EQ(Formula(grads_[1]), "Mul(dy, x)");
}

TEST_F(AddGradientsTest, IntegersCarryNoGradient) {
  const Output x = X("x");
  const Output i = Add("i", "Cast", {x}, {{"DstT", DataType::kInt32}});
  const Output y = Add("y", "Cast", {i}, {{"DstT", DataType::kFloat}});
  ASSERT_EQ(Run({y}, {x}), Status());
  EXPECT_EQ(Formula(grads_[0]), "none");
  ASSERT_EQ(Run({i}, {x}), Status());
  EXPECT_EQ(Formula(grads_[0]), "none");
}

TEST_F(AddGradientsTest, AnXBehindAnotherXGetsItsShareToo) {
  const Output x = X("x"), w = X("w"), dy = X("dy");
  const Output h = Add("h", "Mul", {x, w});
  const Output y = Add("y", "Identity", {h});
  ASSERT_EQ(Run({y}, {h, x}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "dy");
  EXPECT_EQ(Formula(grads_[1]), "Mul(dy, w)");
}

TEST_F(AddGradientsTest, OnlyTheRequestedOutputCounts) {
  const Output x = X("x"), d = X("d");
  const Output two = Add("two", "TwoOut", {x});
  const Output one{two.node, 1};
  const Output y = Add("y", "Mul", {two, Add("odd", "NoGradient", {one})});
  // Nothing between output 0 and y lacks a gradient.
  ASSERT_EQ(Run({y}, {two}, {d}), Status());
  EXPECT_EQ(Formula(grads_[0]), "Mul(d, NoGradient(TwoOut(x)))");
}

TEST_F(AddGradientsTest, SomeOutputsWithoutGradientAreUnset) {
  const Output x = X("x"), d = X("d");
  const Output two = Add("two", "TwoOut", {x});
  ASSERT_EQ(Run({Output{two.node, 1}}, {x}, {d}), Status());
  EXPECT_EQ(Formula(grads_[0]), "d");
  ASSERT_EQ(Run({Output{two.node, 1}, two}, {x}, {d, d}), Status());
  EXPECT_EQ(Formula(grads_[0]), "Add(d, d)");
}

TEST_F(AddGradientsTest, AnOpWithoutGradientIsAnErrorThatLeavesTheGraphAsItWas) {
  const Output x = X("x"), w = X("w");
  const Output bad = Add("bad", "NoGradient", {x});
  const Output y = Add("y", "Mul", {bad, w});
  const int nodes = graph_.num_nodes(), ids = graph_.num_node_ids();
  const Status status = Run({y}, {x, w});
  EXPECT_TRUE(errors::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr("No gradient defined for op: NoGradient"));
  EXPECT_THAT(status.message(), HasSubstr("'bad'"));
  EXPECT_TRUE(grads_.empty());
  EXPECT_EQ(graph_.num_nodes(), nodes);
  EXPECT_EQ(graph_.num_node_ids(), ids);
  // Away from the path between y and x it is no error.
  EXPECT_EQ(Run({y}, {w}), Status());
}

TEST_F(AddGradientsTest, FaultyGradientFunctionsAreErrorsThatNameTheNode) {
  const Output x = X("x"), dy = X("dy");
  Status status = Run({Add("t", "WrongType", {x})}, {x}, {dy});
  EXPECT_TRUE(errors::IsInternal(status));
  EXPECT_THAT(status.message(), HasSubstr("'t'"));
  status = Run({Add("b", "Broken", {x})}, {x}, {dy});
  EXPECT_THAT(status.message(), HasSubstr("NoSuchOp"));
  EXPECT_THAT(status.message(), HasSubstr("'b'"));
}

TEST_F(AddGradientsTest, ReferencesAndResourcesHaveGradientsOfWhatTheyHold) {
  const Output dy = X("dy");
  const Output ref = Add("ref", "Ref");
  const Output read = Add("read", "Identity", {ref});
  const Output y = Add("y", "Mul", {read, ref});
  ASSERT_EQ(Run({y}, {ref, read}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "AddN(Mul(dy, Identity(ref)), Mul(dy, ref))");
  EXPECT_EQ(grads_[0].node->output_type(0), DataType::kFloat);
  EXPECT_EQ(Formula(grads_[1]), "Mul(dy, ref)");

  const Output handle = Add("handle", "Handle");
  const Output value = Add("value", "Read", {handle});
  const Output z = Add("z", "Add", {value, Add("value2", "Read", {handle})});
  ASSERT_EQ(Run({z}, {handle, value}, {dy}), Status());
  EXPECT_EQ(Formula(grads_[0]), "AddN(dy, dy)");
  EXPECT_EQ(Formula(grads_[1]), "dy");
}

TEST_F(AddGradientsTest, GradientsOfGradients) {
  const Output x = X("x");
  const Output y = Add("y", "Mul", {x, Add("xx", "Mul", {x, x})});
  ASSERT_EQ(Run({y}, {x}), Status());
  const Output first = grads_[0];
  ASSERT_EQ(Run({first}, {x}), Status());
  ASSERT_TRUE(grads_[0].IsSet());
  EXPECT_THAT(grads_[0].node->name(), HasSubstr("gradients_1/"));
  EXPECT_EQ(graph_.Validate(), Status());
}

TEST_F(AddGradientsTest, NewNodesTakeOverTheDevice) {
  const Output x = X("x"), y = X("y");
  const Output z = Add("z", "Mul", {x, y}, {}, "/device:CPU:1");
  ASSERT_EQ(Run({z}, {x}), Status());
  EXPECT_EQ(grads_[0].node->requested_device(), "/device:CPU:1");
}

TEST_F(AddGradientsTest, BadArgumentsAreRefused) {
  const Output x = X("x"), d = X("d", PartialShape({}), DataType::kDouble), wide = X("wide", {7});
  const Output y = Add("y", "Identity", {x});
  Graph other(Ops());
  EXPECT_TRUE(errors::IsInvalidArgument(Run({Output{}}, {x})));
  EXPECT_TRUE(errors::IsInvalidArgument(Run({y}, {Output{}})));
  EXPECT_TRUE(errors::IsInvalidArgument(Run({Output{y.node, 1}}, {x})));
  EXPECT_TRUE(errors::IsInvalidArgument(Run({y}, {Output{x.node, -1}})));
  EXPECT_TRUE(errors::IsInvalidArgument(Run({y}, {x}, {x, x})));
  EXPECT_TRUE(errors::IsInvalidArgument(Run({y}, {x}, {d})));
  EXPECT_TRUE(errors::IsInvalidArgument(Run({y}, {x}, {wide})));
  EXPECT_TRUE(errors::IsInvalidArgument(Run({Output{other.source(), 0}}, {x})));
}

TEST_F(AddGradientsTest, ComplexYsNeedAGradient) {
  const Output x = X("x", PartialShape({}), DataType::kComplex64);
  const Status status = Run({Add("y", "Identity", {x})}, {x});
  EXPECT_THAT(status.message(),
              HasSubstr("Gradients of complex tensors must set grad_ys (y.dtype = complex64)"));
}

TEST_F(AddGradientsTest, LongChainsNeedNoStack) {
  const Output x = X("x"), w = X("w");
  Output y = x;
  for (int i = 0; i < 100'000; ++i) y = Add("n" + std::to_string(i), "Mul", {y, w});
  ASSERT_EQ(Run({y}, {x}), Status());
  ASSERT_TRUE(grads_[0].IsSet());
  EXPECT_EQ(grads_[0].node->op_name(), "Mul");
}

TEST_F(AddGradientsTest, NothingToDoIsNothingDone) {
  const int nodes = graph_.num_nodes();
  ASSERT_EQ(Run({}, {}), Status());
  EXPECT_THAT(grads_, ElementsAre());
  EXPECT_EQ(graph_.num_nodes(), nodes);
}

TEST(GradientRegistryTest, OneGradientPerOp) {
  GradientRegistry registry;
  EXPECT_EQ(registry.Register("A", IdentityGrad), Status());
  EXPECT_EQ(registry.Register("A", IdentityGrad), Status());
  EXPECT_TRUE(errors::IsAlreadyExists(registry.Register("A", MulGrad)));
  EXPECT_TRUE(errors::IsAlreadyExists(registry.RegisterNotDifferentiable("A")));
  EXPECT_TRUE(errors::IsInvalidArgument(registry.Register("B", nullptr)));
  EXPECT_EQ(registry.RegisterNotDifferentiable("C"), Status());
  EXPECT_THAT(registry.Ops(), ElementsAre("A", "C"));
  EXPECT_EQ((*registry.LookUp("C"))->fn, nullptr);
  EXPECT_EQ(registry.LookUp("B").status().message(), "No gradient defined for op: B");
}

TEST(GradientRegistryTest, OpsThatSayGradientsEndThereNeedNoEntryOfTheirOwn) {
  OpRegistry ops;
  ASSERT_EQ(ops.Register(OpBuilder("Step").NotDifferentiable()), Status());
  ASSERT_EQ(ops.Register(OpBuilder("Smooth")), Status());
  GradientRegistry registry;
  ASSERT_EQ(registry.RegisterNotDifferentiable(ops), Status());
  EXPECT_THAT(registry.Ops(), ElementsAre("Step"));
  EXPECT_EQ((*registry.LookUp("Step"))->fn, nullptr);
  // An op that is declared as not differentiable must not have a gradient.
  GradientRegistry other;
  ASSERT_EQ(other.Register("Step", IdentityGrad), Status());
  EXPECT_TRUE(errors::IsAlreadyExists(other.RegisterNotDifferentiable(ops)));
}

}  // namespace
}  // namespace millrace
