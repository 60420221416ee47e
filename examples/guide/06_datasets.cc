// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a file of lines "name,height", drops the small ones and makes batches.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/data.h"
#include "millrace/ops.h"

namespace mr = millrace;
namespace ops = millrace::ops;
using Outputs = std::vector<mr::Output>;

// The functions below are called once, to make functions of the graph: elements are tensors of the graph.
Outputs ParseLine(const mr::Scope& scope, const Outputs& line) {
  const ops::DecodeCSV fields(scope, line[0], mr::InputList({{""}, {0.f}}));
  return {fields[0], fields[1]};
}
Outputs IsHigh(const mr::Scope& scope, const Outputs& mountain) {
  return {ops::Greater(scope, mountain[1], 4000.f)};
}

mr::Status Run(const std::string& file) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Dataset mountains = mr::Dataset::TextLine(scope, file)
                                    .Map(ParseLine, {.num_parallel_calls = 2})
                                    .Filter(IsHigh)
                                    .Batch(2)
                                    .Prefetch(1);
  const mr::Iterator iterator = mr::Iterator::Initializable(mountains);
  const Outputs batch = iterator.GetNext(scope);
  MR_RETURN_IF_ERROR(scope.status());
  std::cout << "a batch is " << mr::Scope::TypeOf(batch[0]) << ' ' << scope.ShapeOf(batch[0]) << " and "
            << mr::Scope::TypeOf(batch[1]) << ' ' << scope.ShapeOf(batch[1]) << '\n';

  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(session.Run({}, {}, {iterator.initializer()}, nullptr));
  std::vector<mr::Tensor> outputs;
  mr::Status status;
  while ((status = session.Run(batch, &outputs)).ok()) std::cout << outputs[0] << ' ' << outputs[1] << '\n';
  return mr::errors::IsOutOfRange(status) ? mr::Status() : status;
}

int main(int argc, char** argv) {
  const std::string file = std::string(argc > 1 ? argv[1] : ".") + "/mountains.csv";
  std::ofstream(file) << "Mont Blanc,4806\nZugspitze,2962\nDufourspitze,4634\nDom,4545\n";
  const mr::Status status = Run(file);
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
