// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

// Functions of a graph: subgraphs that are stored once and can be called from any number of places, such as
// the functions of dataset stages.
namespace millrace {

// A function of a graph, built by C++ that adds nodes. A value; unset after an error.
struct GraphFunction {
  FunctionName name;                     // for attributes of ops that call functions
  std::vector<DataType> argument_types;  // without those of `captured`
  std::vector<DataType> types;           // of the results
  std::vector<PartialShape> shapes;      // of the results
  std::vector<Output> captured;  // tensors of the graph around it, in the order of the last parameters
  bool is_stateful = false;      // some node of it is: a random number, a change of a variable

  bool IsSet() const { return !name.name.empty(); }
};

// Adds nodes under the given scope, which belongs to another graph, and returns the results.
using FunctionBodyFn = std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>;

// Runs `body` in a new graph, with parameters of those types, and adds the result to the scope's functions as
// "<name>_<hash>". `shapes` are the known shapes of the parameters; empty: unknown. Tensors of the scope's
// graph that the body uses become further parameters. Errors go to the scope's status.
GraphFunction MakeGraphFunction(const Scope& scope, const std::string& name,
                                const std::vector<DataType>& types, const std::vector<PartialShape>& shapes,
                                const FunctionBodyFn& body);

// Adds a call of a function of the scope's graph (or of the graph around it, in the body of another
// function); returns the results, in order. It is differentiated like any op. InvalidArgument, in the scope's
// status, for arguments of another number or type; then the results are unset.
std::vector<Output> CallFunction(const Scope& scope, const GraphFunction& function,
                                 const std::vector<Input>& arguments);

// A C++ function that is called with the values of tensors when a node runs: from any thread, concurrently.
using HostFn = std::function<StatusOr<std::vector<Tensor>>(const std::vector<Tensor>&)>;

// Adds a node that calls the function and returns its results, of those types and, if given, shapes, which
// are checked. The node works in this process only: files may contain it, but other programs cannot run it.
// It has no gradient and is never pruned or folded. The function is kept until the process ends.
std::vector<Output> CallHostFunction(const Scope& scope, HostFn fn, const std::vector<Output>& inputs,
                                     const std::vector<DataType>& types,
                                     const std::vector<PartialShape>& shapes = {});

}  // namespace millrace
