// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arrays of tensors. The gradient of an array is another array under the same index, made by
// TensorArrayGrad of the same version: gradients of reads are added to it, gradients of writes are read from
// it. The flow determines the order: an op's gradient with respect to the flow that it takes is the flow of
// the gradient array after it was changed.
#include "gradients/family.h"

namespace millrace {
namespace {

// The array of gradients of the one behind input 0, and its flow once `flow` has arrived. All ops of one
// gradient computation find the same one.
class GradientArray {
 public:
  GradientArray(GradientContext& c, const Expr& flow)
      : version_(Version(c.node().op_name())),
        handle_(Op(StrCat("TensorArrayGrad", version_), {c.input(0), flow}, {{"source", c.scope()}})),
        // Only the last version hands the flow on. In the others the order depends on the handle alone.
        flow_(version_ == "V3" ? handle_.Sibling(1) : flow) {}
  // The op "TensorArray<what>" of this version; the handle comes first, the flow last.
  template <typename... Between>
  Expr On(const char* what, AttrMap attrs, const Between&... between) const {
    return Op(StrCat("TensorArray", what, version_), {handle_, between..., flow_}, std::move(attrs));
  }

 private:
  static std::string Version(std::string_view op) {
    const size_t at = op.size() - 2;  // "…V2", "…V3"
    return op[at] == 'V' ? std::string(op.substr(at)) : "";
  }
  const std::string version_;
  const Expr handle_;
  const Expr flow_;
};

// handle, index, flow -> value
Status ReadGrad(GradientContext& c) {
  const GradientArray g(c, c.input(2));
  c.SetInputGrad(2, g.On("Write", {}, c.input(1), c.grad(0)));
  return c.status();
}

// handle, index, value, flow -> flow
Status WriteGrad(GradientContext& c) {
  const Expr flow = c.grad(0);
  // Handles are kept for what does not differentiate them, such as shapes.
  if (c.wants(2) && BaseType(c.input(2).dtype()) != DataType::kResource) {
    const GradientArray g(c, flow);
    c.SetInputGrad(2, g.On("Read", {{"dtype", c.input(2).dtype()}}, c.input(1)));
  }
  c.SetInputGrad(3, flow);
  return c.status();
}

// handle, indices, flow -> value
Status GatherGrad(GradientContext& c) {
  const GradientArray g(c, c.input(2));
  c.SetInputGrad(2, g.On("Scatter", {}, c.input(1), c.grad(0)));
  return c.status();
}

// handle, indices, value, flow -> flow
Status ScatterGrad(GradientContext& c) {
  const Expr flow = c.grad(0);
  if (c.wants(2)) {
    const GradientArray g(c, flow);
    c.SetInputGrad(2, g.On("Gather", {{"dtype", c.input(2).dtype()}}, c.input(1)));
  }
  c.SetInputGrad(3, flow);
  return c.status();
}

// handle, value, lengths, flow -> flow
Status SplitGrad(GradientContext& c) {
  const Expr flow = c.grad(0);
  if (c.wants(1)) {
    const GradientArray g(c, flow);
    c.SetInputGrad(1, g.On("Concat", {{"dtype", c.input(1).dtype()}}));
  }
  c.SetInputGrad(3, flow);
  return c.status();
}

// handle, flow -> value, lengths
Status ConcatGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  const GradientArray g(c, c.input(1));
  c.SetInputGrad(1, g.On("Split", {}, c.grad(0), c.output(1)));
  return c.status();
}

// handle, flow -> value
Status PackGrad(GradientContext& c) {
  const GradientArray g(c, c.input(1));
  c.SetInputGrad(1, g.On("Unpack", {}, c.grad(0)));
  return c.status();
}

// handle, value, flow -> flow
Status UnpackGrad(GradientContext& c) {
  const Expr flow = c.grad(0);
  if (c.wants(1)) {
    const GradientArray g(c, flow);
    c.SetInputGrad(1, g.On("Pack", {{"dtype", c.input(1).dtype()}}));
  }
  c.SetInputGrad(2, flow);
  return c.status();
}

// handle, flow -> handle, flow. The flow alone carries what depends on it.
Status GradGrad(GradientContext& c) {
  if (c.has_grad(1)) c.SetInputGrad(1, c.grad(1));
  return c.status();
}

constexpr gradients::Row kRows[] = {
    {"TensorArrayConcat", ConcatGrad},     {"TensorArrayConcatV2", ConcatGrad},
    {"TensorArrayConcatV3", ConcatGrad},   {"TensorArrayGather", GatherGrad},
    {"TensorArrayGatherV2", GatherGrad},   {"TensorArrayGatherV3", GatherGrad},
    {"TensorArrayGradV3", GradGrad},       {"TensorArrayPack", PackGrad},
    {"TensorArrayRead", ReadGrad},         {"TensorArrayReadV2", ReadGrad},
    {"TensorArrayReadV3", ReadGrad},       {"TensorArrayScatter", ScatterGrad},
    {"TensorArrayScatterV2", ScatterGrad}, {"TensorArrayScatterV3", ScatterGrad},
    {"TensorArraySplit", SplitGrad},       {"TensorArraySplitV2", SplitGrad},
    {"TensorArraySplitV3", SplitGrad},     {"TensorArrayUnpack", UnpackGrad},
    {"TensorArrayWrite", WriteGrad},       {"TensorArrayWriteV2", WriteGrad},
    {"TensorArrayWriteV3", WriteGrad},
};

}  // namespace

Status RegisterTensorArrayGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
