// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// 03_import FILE: makes a graph from a file part of a larger one, and runs it with a callable.
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/graph_def.h"
#include "millrace/ops.h"

namespace mr = millrace;
namespace ops = millrace::ops;

mr::Status Run(const std::string& file) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output raw = ops::Placeholder(scope.WithOpName("raw"), mr::DataType::kFloat);
  const mr::Output scaled = ops::Div(scope, raw, 10.f);

  // The nodes of the file are called "model/…" here. What they took from "x" comes from `scaled`.
  MR_ASSIGN_OR_RETURN(
      const mr::ImportGraphDefResults imported,
      mr::LoadGraph(scope, file, {.prefix = "model", .input_map = {{"x", scaled}}, .return_outputs = {"y"}}));
  const mr::Output y = imported.outputs[0];
  const mr::Output positive = ops::Greater(scope, y, 0.f);
  MR_RETURN_IF_ERROR(scope.status());
  std::cout << "runs " << mr::Scope::NameOf(y) << '\n';

  // A callable is a Run whose feeds and fetches are looked up once; feeds come in that order.
  const mr::ClientSession session(scope);
  MR_ASSIGN_OR_RETURN(const auto callable, session.MakeCallable({raw}, {y, positive}, {}));
  std::vector<mr::Tensor> outputs;
  for (const float first : {10.f, 20.f, 30.f}) {
    const mr::Tensor x = mr::Tensor::From({first, 20.f}, {1, 2});
    MR_RETURN_IF_ERROR(session.RunCallable(callable, {{x}}, &outputs));
    std::cout << first << " -> " << outputs[0].scalar<float>()
              << (outputs[1].scalar<bool>() ? ", positive\n" : ", not positive\n");
  }
  MR_RETURN_IF_ERROR(session.ReleaseCallable(callable));

  // A file that is no graph is refused, and leaves the graph as it is.
  std::cout << mr::ImportGraphDef(scope, "node { name: }").status() << '\n';
  return mr::Status();
}

int main(int argc, char** argv) {
  const mr::Status status = Run(argc > 1 ? argv[1] : "model/frozen.pbtxt");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
