// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/graph_builder.h"
#include "cc/scope_state.h"

namespace millrace {

// A branch or a loop under construction, which adds inputs and attributes to the nodes made within. Shared by
// the scopes within; the graph's state keeps it, so that gradients and later nodes can find the context of a
// tensor. One thread.
class [[gnu::visibility("hidden")]] Scope::Context {
 public:
  Context(State & state, std::shared_ptr<Context> outer) : state_(state), outer_(std::move(outer)) {}
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const std::shared_ptr<Context>& outer() const { return outer_; }
  virtual bool is_loop() const = 0;
  // The node that runs in each execution of this context.
  virtual Node* pivot() const = 0;

  // `tensor` in a form that nodes of this context may use: itself when it was made within, else the output of
  // the node that brings it in, made under the name `user`/….
  StatusOr<Output> Capture(const Output& tensor, const std::string& user);
  // Makes `node`, whose inputs are captured and whose control inputs are set, part of the context.
  void Adopt(Node * node);
  // The node of this context that runs after `before`, for control edges within the context: `before` itself
  // unless there is a loop in between.
  virtual Node* Gate(Node * before) = 0;
  // Marks a node as inside.
  void Own(Node * node) { state_.contexts[node] = this; }

 protected:
  // A new node that brings in `tensor`, which the enclosing context may use.
  virtual StatusOr<Output> LetIn(const Output& tensor, const std::string& user) = 0;
  // True for nodes that do not wait for the pivot through their inputs.
  virtual bool NeedsPivot(const Node& node) const = 0;
  StatusOr<Node*> Add(const std::string& name, const char* op, const std::vector<InputArg>& inputs,
                      AttrMap attrs, const std::string& device = {});

  // True for nodes of this context and of those within.
  bool Has(const Node* node) const;

  State& state_;

 private:
  bool Encloses(const Context* other) const;

  const std::shared_ptr<Context> outer_;
  std::map<std::pair<const Node*, int>, Output> captured_;
};

// One branch of a Cond.
class [[gnu::visibility("hidden")]] BranchContext final : public Scope::Context {
 public:
  BranchContext(Scope::State & state, std::shared_ptr<Context> outer, Output pred, Node * pivot, int branch)
      : Context(state, std::move(outer)), pred_(pred), pivot_(pivot), branch_(branch) {}
  bool is_loop() const override { return false; }
  Node* pivot() const override { return pivot_; }
  Node* Gate(Node * before) override;

 protected:
  StatusOr<Output> LetIn(const Output& tensor, const std::string& user) override;
  bool NeedsPivot(const Node& node) const override { return node.num_inputs() == 0; }

 private:
  const Output pred_;
  Node* const pivot_;
  const int branch_;
};

// The condition and the body of a While.
class [[gnu::visibility("hidden")]] LoopContext final : public Scope::Context {
 public:
  LoopContext(Scope::State & state, std::shared_ptr<Context> outer, std::string frame,
              int64_t parallel_iterations)
      : Context(state, std::move(outer)),
        frame_(std::move(frame)),
        parallel_iterations_(parallel_iterations) {}
  bool is_loop() const override { return true; }
  Node* pivot() const override { return pivot_; }
  void set_pivot(Node * pivot) { pivot_ = pivot; }
  Node* Gate(Node * before) override;
  // Enter, or RefEnter for a reference that stays one.
  StatusOr<Output> Enter(const Output& tensor, const std::string& name, bool is_constant);

 protected:
  StatusOr<Output> LetIn(const Output& tensor, const std::string& user) override;
  bool NeedsPivot(const Node& node) const override;

 private:
  const std::string frame_;
  const int64_t parallel_iterations_;
  Node* pivot_ = nullptr;
  std::vector<Node*> enters_;
};

}  // namespace millrace
