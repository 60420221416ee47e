// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/function_body.h"
#include "millrace/output.h"

namespace millrace {

// The gradient of a function that must not run again, split from one graph: the body of the function with its
// gradients. The forward function returns, after its results, the tensors that the backward function needs.
// So random numbers are drawn, and side effects happen, once. One thread.
class FunctionSplit {
 public:
  static constexpr size_t kMaxDepth = 64;

  struct Request {
    std::string scope = "gradients";  // of the computation: arrays of gradients are found by its name
    size_t num_parameters = 0;        // of the function, as the node that calls it has inputs and outputs
    size_t num_results = 0;
    std::vector<int> arriving;             // results with incoming gradients
    std::vector<DataType> arriving_types;  // of resources: the types of their values
    std::vector<int> targets;              // parameters whose gradients are needed
    std::vector<DataType> target_types;
    bool only_constant_parameters = false;  // the backward function takes of the parameters only the constant
                                            // ones; others are kept
  };

  // `owner`: the graph whose library has f and gets the functions. Unimplemented when a tensor of a loop or
  // branch of primitives would have to be kept, and for functions that call themselves or are nested more
  // than kMaxDepth deep.
  static StatusOr<std::unique_ptr<FunctionSplit>> Make(Graph& owner, const NameAttrList& f,
                                                       const Request& request);

  const std::vector<Output>& parameters() const { return parameters_; }
  const std::vector<Output>& results() const { return results_; }
  const std::vector<Output>& arriving() const { return arriving_; }
  const std::vector<Output>& gradients() const { return gradients_; }
  const std::vector<Output>& kept() const { return kept_; }
  // Whether the function returns parameter i as result i.
  bool IsConstant(size_t i) const;

  // For additional parameters: a node for one, and nodes of the forward or the backward function.
  StatusOr<Output> AddParameter(DataType type);
  StatusOr<Output> AddForward(std::string_view op, AttrMap attrs, const std::vector<Output>& inputs);
  StatusOr<Output> AddBackward(std::string_view op, AttrMap attrs, const std::vector<Output>& inputs);
  // The backward function uses `by` in place of kept tensor i.
  void ReplaceKept(size_t i, const Output& by);

  // Adds the functions to the library of the owner.
  StatusOr<NameAttrList> WriteForward(const std::vector<Output>& inputs, const std::vector<Output>& outputs);
  StatusOr<NameAttrList> WriteBackward(const std::vector<Output>& inputs, const std::vector<Output>& outputs);

 private:
  FunctionSplit(Graph& owner, NameAttrList f, FunctionBody body);
  Status Differentiate(const Request& request);
  Status TakeGradient(const std::string& registered, const Request& request);
  StatusOr<Output> Arriving(const Request& request, size_t i);
  StatusOr<std::map<const Node*, Node*>> CopyNodes(const std::string& registered, const Graph& from,
                                                   const std::string& scope);
  Status MarkBehindGradients();
  Status Collect(bool only_constant_parameters);
  bool IsPure(const Node& node) const;
  StatusOr<Output> Zeros(const Output& parameter, DataType type);
  StatusOr<Node*> Add(std::string_view op, AttrMap attrs, const std::vector<Output>& inputs);
  bool IsParameter(const Node* node) const;

  Graph& owner_;
  const NameAttrList f_;
  FunctionBody body_;
  Graph& graph_;
  std::vector<Output> parameters_, results_, arriving_, gradients_, kept_;
  std::vector<Node*> more_parameters_;
  int first_new_ = 0;         // nodes from here on belong to the gradients
  std::vector<bool> behind_;  // by id: nodes that depend on the incoming gradients
  std::vector<const Node*> forward_, backward_;
};

// While one exists, the thread derives a gradient that runs its function again: nothing in it is split.
class RunsAgainScope {
 public:
  RunsAgainScope() { ++depth_; }
  ~RunsAgainScope() { --depth_; }
  RunsAgainScope(const RunsAgainScope&) = delete;
  RunsAgainScope& operator=(const RunsAgainScope&) = delete;
  static bool IsActive() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

// Adds a function to a library under a unique name: `name` and a hash.
StatusOr<NameAttrList> AddWrittenFunction(Graph& owner, std::string name, std::vector<const Node*> body,
                                          std::vector<Output> inputs, std::vector<Output> outputs);
// The function with additional parameters that it does not use.
StatusOr<NameAttrList> WithMoreParameters(Graph& owner, const NameAttrList& f,
                                          const std::vector<DataType>& more);

}  // namespace millrace
