// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr OpTraits kControlFlow{.cheap = true, .aliasing = true, .never_fold = true, .is_control_flow = true};

// The resource behind input 0 is behind output i, too.
void PassHandle(InferenceContext& c, int i) {
  if (!c.input_handle(0).empty()) c.set_output_handle(i, c.input_handle(0));
}

Status ForwardShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  PassHandle(c, 0);
  return Status::Ok();
}

Status SwitchShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  for (int i = 0; i < 2; ++i) {
    c.set_output(i, c.input(0));
    PassHandle(c, i);
  }
  return Status::Ok();
}

// Any of the inputs may be forwarded, so only the common part of their shapes is known.
Status MergeShape(InferenceContext& c) {
  c.set_output(1, c.Scalar());
  ShapeHandle out = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    const ShapeHandle input = c.input(i);
    if (!c.RankKnown(out) || !c.RankKnown(input) || c.Rank(input) != c.Rank(out)) {
      out = c.UnknownShape();
      break;
    }
    std::vector<DimHandle> dims(c.Rank(out));
    for (int d = 0; d < c.Rank(out); ++d) {
      const DimHandle a = c.Dim(out, d);
      const DimHandle b = c.Dim(input, d);
      const bool equal = a.SameAs(b) || (c.ValueKnown(a) && c.Value(a) == c.Value(b));
      dims[d] = equal ? a : c.UnknownDim();
    }
    out = c.MakeShape(dims);
  }
  c.set_output(0, out);
  return Status::Ok();
}

// A value that enters a loop may have another shape in later iterations, unless it is constant.
Status EnterShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const bool is_constant, c.Attr<bool>("is_constant"));
  const bool is_resource = !c.input_handle(0).empty();
  c.set_output(0, is_constant || is_resource ? c.input(0) : c.UnknownShape());
  PassHandle(c, 0);
  return Status::Ok();
}

Status LoopCondShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRank(c.input(0), 0));
  c.set_output(0, out);
  return Status::Ok();
}

// The plain op and the one on references.
std::vector<OpBuilder> Branching() {
  return {
      OpBuilder("Switch: Forwards its input to one of two outputs; the other is dead.")
          .Input("data: T")
          .Input("pred: bool")
          .Output("output_false: T")
          .Output("output_true: T")
          .Attr(kAnyType)
          .Shape(SwitchShape)
          .Traits(kControlFlow),
      OpBuilder("RefSwitch: Switch for references.")
          .Input("data: Ref(T)")
          .Input("pred: bool")
          .Output("output_false: Ref(T)")
          .Output("output_true: Ref(T)")
          .Attr(kAnyType)
          .AllowsUninitializedInput()
          .Shape(SwitchShape)
          .Traits(kControlFlow),
      OpBuilder("Merge: The first live input, and its index.")
          .Input("inputs: N * T")
          .Output("output: T")
          .Output("value_index: int32")
          .Attr(kAnyType)
          .Attr("N: int >= 1")
          .Shape(MergeShape)
          .Traits(kControlFlow),
      OpBuilder("RefMerge: Merge for references.")
          .Input("inputs: Ref(N * T)")
          .Output("output: Ref(T)")
          .Output("value_index: int32")
          .Attr(kAnyType)
          .Attr("N: int >= 1")
          .Shape(MergeShape)
          .Traits(kControlFlow),
  };
}

OpBuilder Forward(const char* name, bool ref) {
  return OpBuilder(name)
      .Input(ref ? "data: Ref(T)" : "data: T")
      .Output(ref ? "output: Ref(T)" : "output: T")
      .Attr(kAnyType)
      .Traits(kControlFlow);
}

OpBuilder Enter(const char* name, bool ref) {
  return Forward(name, ref)
      .Attr("frame_name: string")
      .Attr("is_constant: bool = false")
      .Attr("parallel_iterations: int = 10");
}

std::vector<OpBuilder> Loops() {
  return {
      Enter("Enter: Passes a tensor into the frame of a loop.", false).Shape(EnterShape),
      Enter("RefEnter: Enter for references.", true).Shape(ForwardShape),
      Forward("Exit: Passes a tensor out of the frame of a loop.", false).Shape(ForwardShape),
      Forward("RefExit: Exit for references.", true).Shape(ForwardShape),
      Forward("NextIteration: Passes a tensor to the next iteration of a loop.", false).Shape(ForwardShape),
      Forward("RefNextIteration: NextIteration for references.", true).Shape(ForwardShape),
      OpBuilder("LoopCond: Whether a loop continues.")
          .Input("input: bool")
          .Output("output: bool")
          .Shape(LoopCondShape)
          .Traits(kControlFlow)
          .NotDifferentiable(),
  };
}

Status RefSelectShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  // Known as far as all candidates agree.
  for (int i = 2; i < c.num_inputs(); ++i) {
    if (!c.FullyDefined(c.input(i)) || !c.Merge(c.input(1), c.input(i)).ok()) {
      c.set_output(0, c.UnknownShape());
      return Status::Ok();
    }
  }
  c.set_output(0, c.FullyDefined(c.input(1)) ? c.input(1) : c.UnknownShape());
  return Status::Ok();
}

// References that are forwarded.
std::vector<OpBuilder> References() {
  constexpr OpTraits kHandsOn{.cheap = true, .never_fold = true};
  return {
      OpBuilder("RefSelect: Forwards one of several references, selected by an index.")
          .Input("index: int32")
          .Input("inputs: Ref(N * T)")
          .Output("output: Ref(T)")
          .Attr(kAnyType)
          .Attr("N: int >= 1")
          .Shape(RefSelectShape)
          .Traits(kHandsOn)
          .NotDifferentiable(),
      OpBuilder("RefIdentity: Identity for references.")
          .Input("input: Ref(T)")
          .Output("output: Ref(T)")
          .Attr(kAnyType)
          .AllowsUninitializedInput()
          .Shape(ForwardShape)
          .Traits(kHandsOn),
  };
}

std::vector<OpBuilder> Triggers() {
  return {
      OpBuilder("ControlTrigger: Does nothing; for control edges, runs even with dead inputs.")
          .Shape(shape_fns::NoOutputs)
          .Traits({.cheap = true, .is_control_flow = true})
          .NotDifferentiable(),
      OpBuilder("Abort: Aborts the process.")
          .Attr("error_msg: string = ''")
          .Attr("exit_without_error: bool = false")
          .Shape(shape_fns::NoOutputs)
          .Traits({.never_fold = true, .has_side_effects = true})
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterControlFlowOps(OpRegistry& registry) {
  for (const auto part : {ops::Branching, ops::Loops, ops::References, ops::Triggers}) {
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  }
  return Status::Ok();
}

}  // namespace millrace
