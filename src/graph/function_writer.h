// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "millrace/output.h"
#include "millrace/status.h"

namespace tensorflow {
class FunctionDef;
}

namespace millrace {

// The definition of a function: all or some nodes of a graph.
struct FunctionParts {
  std::string name;
  std::string description;
  bool append_hash = false;
  std::vector<const Node*> body;  // by id
  std::vector<Output> inputs;     // tensors that become parameters
  std::vector<Output> outputs;
  std::vector<std::string> output_names;  // empty: named after the nodes
  std::vector<const Node*> controls;      // nodes that run with every call
  std::vector<std::string> control_names;
};

// Writes the function. Error texts are TensorFlow's.
Status WriteFunction(const FunctionParts& parts, tensorflow::FunctionDef* def);

}  // namespace millrace
