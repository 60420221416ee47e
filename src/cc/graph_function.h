// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/scope.h"
#include "millrace/shape.h"

namespace millrace {

// A function of a graph, made of C++ that adds nodes.
struct GraphFunction {
  FunctionName name;
  std::vector<DataType> types;       // of the results
  std::vector<PartialShape> shapes;  // of the results
  std::vector<Output> captured;      // tensors of the graph around it, in the order of the last parameters
};

using FunctionBodyFn = std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>;

// Runs `body` in a graph of its own, with parameters of those types, and adds what it made to the scope's
// functions as "<name>_<hash>". Tensors of the scope's graph that it uses become further parameters. Errors
// go to the scope's status.
GraphFunction MakeGraphFunction(const Scope& scope, const std::string& name,
                                const std::vector<DataType>& types, const std::vector<PartialShape>& shapes,
                                const FunctionBodyFn& body);

}  // namespace millrace
