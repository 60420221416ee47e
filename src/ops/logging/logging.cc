// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/family.h"

namespace millrace {
namespace {

// A text with as many places as there are tensors.
Status StringFormatShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const std::string text, c.Attr<std::string>("template"));
  MR_ASSIGN_OR_RETURN(const std::string placeholder, c.Attr<std::string>("placeholder"));
  int places = 0;
  for (size_t at = placeholder.empty() ? std::string::npos : text.find(placeholder); at != std::string::npos;
       at = text.find(placeholder, at + placeholder.size())) {
    ++places;
  }
  if (places != c.num_inputs()) {
    return errors::InvalidArgument("num placeholders in template and num inputs must match: ", places,
                                   " vs. ", c.num_inputs());
  }
  c.set_output(0, c.Scalar());
  return Status::Ok();
}

Status PrintShape(InferenceContext& c) { return c.WithRank(c.input(0), 0).status(); }

}  // namespace

Status RegisterLoggingOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(registry.Register(
      OpBuilder("Assert: Ends the step with an error that shows its data when the condition is false.")
          .Input("condition: bool")
          .Input("data: T")
          .Stateful()
          .Attr("T: list(type) >= 1")
          .Attr("summarize: int = 3")
          .Shape(shape_fns::NoOutputs)
          .Traits({.has_side_effects = true, .only_checks = true})
          .NotDifferentiable()));
  MR_RETURN_IF_ERROR(registry.Register(OpBuilder("StringFormat: Formats tensors into a template string.")
                                           .Input("inputs: T")
                                           .Output("output: string")
                                           .Attr("T: list(type) >= 0")
                                           .Attr("template: string = '%s'")
                                           .Attr("placeholder: string = '%s'")
                                           .Attr("summarize: int = 3")
                                           .Shape(StringFormatShape)
                                           .NotDifferentiable()));
  MR_RETURN_IF_ERROR(registry.Register(
      OpBuilder("PrintV2: Prints a string to standard output, standard error, the log or a file.")
          .Input("input: string")
          .Attr("output_stream: string = 'stderr'")
          .Attr("end: string = '\\n'")
          .Stateful()
          .Shape(PrintShape)
          .Traits({.has_side_effects = true})
          .NotDifferentiable()));
  MR_RETURN_IF_ERROR(registry.Register(OpBuilder("Fact: A fact about factorials.")
                                           .Output("fact: string")
                                           .Shape(shape_fns::Scalar)
                                           .NotDifferentiable()));
  return registry.Register(OpBuilder("Print: The input, unchanged; prints data to standard error.")
                               .Input("input: T")
                               .Input("data: U")
                               .Output("output: T")
                               .Stateful()
                               .Attr(ops::kAnyType)
                               .Attr("U: list(type) >= 0")
                               .Attr("message: string = ''")
                               .Attr("first_n: int = -1")
                               .Attr("summarize: int = 3")
                               .Shape(shape_fns::Unchanged)
                               .Traits({.aliasing = true, .has_side_effects = true}));
}

}  // namespace millrace
