// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/testing.h"

#include <algorithm>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "op/shape_inference.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

Status PlaceholderShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const PartialShape shape, c.Attr<PartialShape>("shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromPartial(shape));
  c.set_output(0, out);
  return Status();
}

Status ConstShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const Tensor value, c.Attr<Tensor>("value"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromPartial(value.shape()));
  c.set_output(0, out);
  return Status();
}

Status ShapeFromInput0(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(0));
  c.set_output(0, out);
  return Status();
}

Status ShapeFromInput1(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(1));
  c.set_output(0, out);
  return Status();
}

Status ShapeOpShape(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.Vector(c.Rank(c.input(i))));
  return Status();
}

Status PackShape(InferenceContext& c) {
  c.set_output(0, c.Vector(c.num_inputs()));
  return Status();
}

Status HandleShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const PartialShape shape, c.Attr<PartialShape>("shape"));
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>("dtype"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle of_value, c.MakeShapeFromPartial(shape));
  c.set_output(0, c.Scalar());
  c.set_output_handle(0, {{of_value, dtype}});
  return Status();
}

Status SwitchShape(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(0));
  return Status();
}

Status ReadShape(InferenceContext& c) {
  if (!c.input_handle(0).empty()) c.set_output(0, c.input_handle(0)[0].shape);
  return Status();
}

class TestRegistry {
 public:
  TestRegistry() {
    Basics();
    ShapeOps();
    StateAndFlow();
    Internals();
  }
  const OpRegistry& ops() const { return ops_; }

 private:
  void Add(OpBuilder builder) {
    const Status status = ops_.Register(builder);
    EXPECT_TRUE(status.ok()) << status;
  }
  static OpTraits Generator(bool never_fold) {
    OpTraits traits;
    traits.generator = true;
    traits.never_fold = never_fold;
    return traits;
  }

  void Basics() {
    using namespace shape_fns;  // NOLINT(google-build-using-namespace): the table below
    Add(OpBuilder("NoOp"));
    Add(OpBuilder("Const")
            .Output("output: dtype")
            .Attr("value: tensor")
            .Attr("dtype: type")
            .Shape(ConstShape)
            .Traits(Generator(false)));
    Add(OpBuilder("Placeholder")
            .Output("output: dtype")
            .Attr("dtype: type")
            .Attr("shape: shape = { unknown_rank: true }")
            .Shape(PlaceholderShape)
            .Traits(Generator(true)));
    Add(OpBuilder("Identity")
            .Input("input: T")
            .Output("output: T")
            .Attr("T: type")
            .Shape(Unchanged)
            .Traits({.forwards = true}));
    Add(OpBuilder("Neg").Input("x: T").Output("y: T").Attr("T: type = DT_FLOAT").Shape(Unchanged));
    Add(OpBuilder("Cast")
            .Input("x: SrcT")
            .Output("y: DstT")
            .Attr("SrcT: type")
            .Attr("DstT: type")
            .Attr("Truncate: bool = false")
            .Shape(Unchanged));
    Add(OpBuilder("Add")
            .Input("x: T")
            .Input("y: T")
            .Output("z: T")
            .Attr("T: {float, int32, double} = DT_FLOAT")
            .Commutative()
            .Shape(BroadcastBinary));
    Add(OpBuilder("Sub")
            .Input("x: T")
            .Input("y: T")
            .Output("z: T")
            .Attr("T: type = DT_FLOAT")
            .Shape(BroadcastBinary));
    Add(OpBuilder("MatMul")
            .Input("a: T")
            .Input("b: T")
            .Output("product: T")
            .Attr("transpose_a: bool = false")
            .Attr("transpose_b: bool = false")
            .Attr("T: {float, double}")
            .Shape(MatMul));
    Add(OpBuilder("Split")
            .Input("value: T")
            .Output("output: n * T")
            .Attr("n: int >= 1")
            .Attr("T: type = DT_FLOAT")
            .Shape(SwitchShape));
    Add(OpBuilder("OldOp").Deprecated(8, "use another"));
    Add(OpBuilder("AgedOp").Deprecated(8, "Use NewOp"));
    Add(OpBuilder("GpuOnly").Input("x: float").Output("y: float"));
  }

  void ShapeOps() {
    OpTraits metadata;
    metadata.metadata_only = true;
    const auto out = [](OpBuilder b) { return b.Attr("out_type: {int32, int64} = DT_INT32"); };
    Add(out(OpBuilder("Shape").Input("input: T").Output("output: out_type").Attr("T: type = DT_FLOAT"))
            .Shape(ShapeOpShape)
            .Traits(metadata));
    Add(out(OpBuilder("ShapeN").Input("input: N * T").Output("output: N * out_type"))
            .Attr("N: int >= 1")
            .Attr("T: type = DT_FLOAT")
            .Shape(ShapeOpShape)
            .Traits(metadata));
    Add(out(OpBuilder("Size").Input("input: T").Output("output: out_type").Attr("T: type = DT_FLOAT"))
            .Shape(shape_fns::Scalar)
            .Traits(metadata));
    Add(OpBuilder("Rank")
            .Input("input: T")
            .Output("output: int32")
            .Attr("T: type = DT_FLOAT")
            .Shape(shape_fns::Scalar)
            .Traits(metadata));
    Add(OpBuilder("Pack")
            .Input("values: N * T")
            .Output("output: T")
            .Attr("N: int >= 1")
            .Attr("T: type = DT_INT32")
            .Attr("axis: int = 0")
            .Shape(PackShape));
    Add(OpBuilder("ConcatV2")
            .Input("values: N * T")
            .Input("axis: int32")
            .Output("output: T")
            .Attr("N: int >= 2")
            .Attr("T: type = DT_INT32"));
    Add(OpBuilder("Slice")
            .Input("input: T")
            .Input("begin: int32")
            .Input("size: int32")
            .Output("output: T")
            .Attr("T: type = DT_INT32"));
    Add(OpBuilder("StridedSlice")
            .Input("input: T")
            .Input("begin: int32")
            .Input("end: int32")
            .Input("strides: int32")
            .Output("output: T")
            .Attr("T: type = DT_INT32")
            .Attr("begin_mask: int = 0")
            .Attr("end_mask: int = 0")
            .Attr("ellipsis_mask: int = 0")
            .Attr("new_axis_mask: int = 0")
            .Attr("shrink_axis_mask: int = 0"));
    Add(OpBuilder("Reshape")
            .Input("tensor: float")
            .Input("shape: int32")
            .Output("output: float")
            .Shape(ShapeFromInput1));
    Add(OpBuilder("Fill")
            .Input("dims: int32")
            .Input("value: float")
            .Output("output: float")
            .Shape(ShapeFromInput0));
  }

  void StateAndFlow() {
    OpTraits variable = Generator(true);
    variable.is_variable = true;
    OpTraits flow;
    flow.is_control_flow = true;
    Add(OpBuilder("RandomUniform")
            .Input("shape: int32")
            .Output("output: float")
            .Stateful()
            .Shape(ShapeFromInput0));
    Add(OpBuilder("VariableV2").Output("ref: Ref(float)").Stateful().Traits(variable));
    Add(OpBuilder("Assign").Input("ref: Ref(float)").Input("value: float").Output("output_ref: Ref(float)"));
    Add(OpBuilder("VarHandleOp")
            .Output("resource: resource")
            .Attr("shape: shape")
            .Attr("dtype: type")
            .Stateful()
            .Shape(HandleShape)
            .Traits(variable));
    Add(OpBuilder("ReadVariableOp")
            .Input("resource: resource")
            .Output("value: dtype")
            .Attr("dtype: type")
            .Stateful()
            .Shape(ReadShape));
    Add(OpBuilder("Switch")
            .Input("data: T")
            .Input("pred: bool")
            .Output("a: T")
            .Output("b: T")
            .Attr("T: type")
            .Shape(SwitchShape)
            .Traits(flow));
    Add(OpBuilder("Merge")
            .Input("inputs: N * T")
            .Output("output: T")
            .Attr("N: int >= 1")
            .Attr("T: type")
            .Traits(flow));
    Add(OpBuilder("NextIteration").Input("data: T").Output("output: T").Attr("T: type").Traits(flow));
  }

  void Internals() {
    OpTraits send;
    send.is_send = true;
    OpTraits recv;
    recv.is_recv = true;
    const auto transfer = [](OpBuilder b) {
      return b.Attr("tensor_name: string")
          .Attr("send_device: string")
          .Attr("send_device_incarnation: int")
          .Attr("recv_device: string")
          .Attr("client_terminated: bool = false")
          .Stateful();
    };
    Add(OpBuilder("_Arg").Output("output: T").Attr("T: type").Attr("index: int >= 0").Stateful());
    Add(OpBuilder("_Retval").Input("input: T").Attr("T: type").Attr("index: int >= 0").Stateful());
    Add(transfer(OpBuilder("_Send").Input("tensor: T").Attr("T: type")).Traits(send));
    Add(transfer(OpBuilder("_Recv").Output("tensor: tensor_type").Attr("tensor_type: type")).Traits(recv));
  }

  OpRegistry ops_;
};

}  // namespace

const OpRegistry& TestOps() {
  static const auto* const registry = new TestRegistry;
  return registry->ops();
}

Node* AddTestNode(Graph* graph, std::string_view name, std::string_view op,
                  const std::vector<std::string>& inputs, AttrMap attrs, std::string_view device) {
  auto node = graph->AddNode(name, op, std::move(attrs), device);
  EXPECT_TRUE(node.ok()) << node.status();
  if (!node.ok()) return nullptr;
  int slot = 0;
  for (const std::string& input : inputs) {
    const TensorId id = ParseTensorId(input);
    Node* src = graph->FindNode(id.name);
    EXPECT_NE(src, nullptr) << input;
    if (src == nullptr) return nullptr;
    if (id.index == Edge::kControlSlot) {
      graph->AddControlEdge(src, *node);
    } else {
      graph->AddEdge(src, id.index, *node, slot++);
    }
  }
  return *node;
}

tensorflow::GraphDef GraphDefFromText(const std::string& text) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def)) << text;
  return def;
}

std::string GraphText(const Graph& graph) {
  std::string out;
  for (const Node* node : graph.OpNodes()) {
    out += StrCat(node->name(), " = ", node->op_name(), "(");
    std::vector<std::string> inputs;
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr && edge->src->IsOp())
        inputs.push_back(TensorId{edge->src->name(), edge->src_output}.ToString());
    }
    std::sort(inputs.begin() + static_cast<std::ptrdiff_t>(node->num_inputs()), inputs.end());
    for (size_t i = 0; i < inputs.size(); ++i) out += (i == 0 ? "" : ", ") + inputs[i];
    out += ")";
    const std::string& device =
        node->has_assigned_device() ? node->assigned_device() : node->requested_device();
    out += device.empty() ? "\n" : " @" + device + "\n";
  }
  return out;
}

}  // namespace millrace
