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
// both by index; list arguments are expanded.
struct FunctionBody {
  std::unique_ptr<Graph> graph;
  std::vector<Node*> args;
  std::vector<Node*> rets;
  std::vector<Node*> control_rets;  // nodes that run with every call, even without consumers
  std::vector<DataType> arg_types;
  std::vector<DataType> ret_types;
};

// Whether an op belongs to one step, so that only instantiation may put it into a body.
bool IsReservedOp(std::string_view op);

// "name[T=DT_FLOAT,U=[1, 2]]": a readable name of an instance of a function.
std::string FunctionKey(const NameAttrList& f);

// Binds the attributes of a function of the library; those missing in `f` get their defaults. Errors name the
// function and the node, in TensorFlow's words: "Attr T is not found from …", "input x is not found: …",
// "Return y missing.". NotFound for a function that is not in the library.
StatusOr<FunctionBody> InstantiateFunction(const FunctionLibrary& library, const OpRegistry& ops,
                                           const NameAttrList& f);

// A body of one node: for SymbolicGradient and others, when an op is used in place of a function.
StatusOr<FunctionBody> BodyOfOp(const FunctionLibrary& library, const OpRegistry& ops,
                                const NameAttrList& op);

// Sets args, rets and the types from the graph's _Arg and _Retval nodes. InvalidArgument when an index is
// missing or repeated.
Status IndexBody(FunctionBody* body);

// Checks what can be checked before the attributes of a function are bound: ops are known, names unique,
// inputs and results exist, no cycle; and also the types, if all attributes have defaults. A function may
// call itself and later functions.
Status ValidateFunction(const FunctionLibrary& library, const OpRegistry& ops,
                        const tensorflow::FunctionDef& def);

}  // namespace millrace
