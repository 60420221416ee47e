// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "compile/place/placer.h"
#include "graph/function_body.h"

namespace millrace {

// Where resources can be that a node passes to functions: the bodies, and those that they call, access them.
class FunctionResources {
 public:
  using TypeMask = uint64_t;  // bit i: type i of the devices

  // REQUIRES: both outlive this.
  FunctionResources(const Graph& graph, const PlaceOptions& options);

  // The types of devices for which all accesses have kernels; all types if nothing restricts them.
  TypeMask Types(const Node& node);

 private:
  // Null when the function cannot be instantiated: a call of it fails.
  const FunctionBody* BodyOf(const NameAttrList& f);
  TypeMask TypesOfArg(const FunctionBody& body, int arg);
  TypeMask TypesBehind(const Node& arg);
  TypeMask KernelTypes(const Node& node) const;

  const Graph& graph_;
  const PlaceOptions& options_;
  const TypeMask all_;
  std::map<std::string, FunctionBody> bodies_;                            // by FunctionKey
  std::map<std::pair<const FunctionBody*, int>, TypeMask> types_of_arg_;  // all types while it is computed
};

}  // namespace millrace
