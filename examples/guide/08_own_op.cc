// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// 08_own_op LIBRARY: loads the op of 08_op_library.cc and uses it like the built-in ones.
#include <cstdio>

#include "millrace/client_session.h"
#include "millrace/gradients.h"
#include "millrace/op_library.h"
#include "millrace/ops.h"

namespace mr = millrace;
namespace ops = millrace::ops;

// Built-in ops have wrappers like this one.
mr::Output SoftClip(const mr::Scope& scope, const mr::Input& x, float limit) {
  mr::OpMaker maker(scope, "SoftClip", {});
  maker.Add(x);
  maker.SetAttr("limit", limit);
  maker.Finish();
  return maker.output(0);
}

mr::Status Run(const std::string& library) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, mr::LoadLibrary(library));
  for (const std::string& name : names) std::printf("loaded %s\n", name.c_str());

  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x = ops::Placeholder(scope, mr::DataType::kFloat, ops::Placeholder::Shape({3}));
  const mr::Output y = SoftClip(scope, x, 2.f);
  std::vector<mr::Output> gradients;
  MR_RETURN_IF_ERROR(mr::AddSymbolicGradients(scope, {y}, {x}, &gradients));
  std::printf("the shape is known: %s\n", scope.ShapeOf(y).ToString().c_str());

  const mr::ClientSession session(scope);
  std::vector<mr::Tensor> outputs;
  MR_RETURN_IF_ERROR(session.Run({{x, {0.f, 2.f, -100.f}}}, {y, gradients[0]}, &outputs));
  for (int i = 0; i < 3; ++i) {
    std::printf("y = %.3f with slope %.3f\n", outputs[0].vec<float>()(i), outputs[1].vec<float>()(i));
  }

  // What the kernel refuses is an error of the step.
  const mr::Output bad = SoftClip(scope.WithOpName("bad"), x, -1.f);
  const mr::Status refused = session.Run({{x, {0.f, 2.f, -100.f}}}, {bad}, &outputs);
  std::printf("%s\n", refused.ToString().c_str());
  return mr::Status();
}

int main(int argc, char** argv) {
  const mr::Status status = Run(argc > 1 ? argv[1] : "./libguide_op.so");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
