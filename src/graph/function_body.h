// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/function_library.h"
#include "graph/graph.h"
#include "millrace/status.h"
#include "op/attr_value.h"

namespace millrace {

// The graph of a function with its attributes bound. Parameters are _Arg nodes and results _Retval nodes,
// both by index; list arguments are spread out.
struct FunctionBody {
  std::unique_ptr<Graph> graph;
  std::vector<Node*> args;
  std::vector<Node*> rets;
  std::vector<Node*> control_rets;  // nodes that run with every call, even without consumers
  std::vector<DataType> arg_types;
  std::vector<DataType> ret_types;
};

// Whether an op ties a graph to a step, so that only instantiation may put it into a body.
bool IsReservedOp(std::string_view op);

// "name[T=DT_FLOAT,U=[1, 2]]": tells instances of one function apart for a reader.
std::string FunctionKey(const NameAttrList& f);

// Binds the attributes of a function of the library; those that `f` leaves out get their defaults. Errors
// name the function and the node, in TensorFlow's words: "Attr T is not found from …", "input x is not found:
// …", "Return y missing.". NotFound for a function that the library does not have.
StatusOr<FunctionBody> InstantiateFunction(const FunctionLibrary& library, const OpRegistry& ops,
                                           const NameAttrList& f);

// A body of one node: what SymbolicGradient and others do with an op that stands where a function may.
StatusOr<FunctionBody> BodyOfOp(const FunctionLibrary& library, const OpRegistry& ops,
                                const NameAttrList& op);

// Fills args, rets and the types from the graph's _Arg and _Retval nodes. InvalidArgument when an index is
// missing or given twice.
Status IndexBody(FunctionBody* body);

// Checks all that can be said of a function before its attributes are bound: ops are known, names unique,
// inputs and results there, no cycle; and the types, too, when it has no attributes without a default. A
// function may call itself and those that follow it.
Status ValidateFunction(const FunctionLibrary& library, const OpRegistry& ops,
                        const tensorflow::FunctionDef& def);

}  // namespace millrace
