// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// Runs parts of the graph of a scope. Nodes that were added since the last call are first added to the
// session, so the graph may grow between Runs. Thread-safe while the graph does not grow. Errors of the
// constructor and of the scope are returned by each Run.
class ClientSession {
 public:
  using Feeds = std::vector<std::pair<Output, Literal>>;

  explicit ClientSession(const Scope& scope) : ClientSession(scope, SessionOptions()) {}
  ClientSession(const Scope& scope, const SessionOptions& options);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  // outputs[i] is fetches[i]; `outputs` may be null.
  Status Run(const std::vector<Output>& fetches, std::vector<Tensor>* outputs) const;
  Status Run(const Feeds& feeds, const std::vector<Output>& fetches, std::vector<Tensor>* outputs) const;
  // Also runs `operations`, whose results are not fetched.
  Status Run(const Feeds& feeds, const std::vector<Output>& fetches, const std::vector<Operation>& operations,
             std::vector<Tensor>* outputs) const;
  Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<Output>& fetches,
             const std::vector<Operation>& operations, std::vector<Tensor>* outputs,
             RunMetadata* metadata) const;

  // A prepared Run; its feeds are in the order given here.
  StatusOr<Session::CallableHandle> MakeCallable(const std::vector<Output>& feeds,
                                                 const std::vector<Output>& fetches,
                                                 const std::vector<Operation>& operations) const;
  Status RunCallable(Session::CallableHandle callable, std::span<const Tensor> feeds,
                     std::vector<Tensor>* outputs) const;
  Status ReleaseCallable(Session::CallableHandle callable) const;

  const Scope& scope() const;
  // The underlying session; null if its creation failed. It lacks nodes added since the last call.
  Session* session() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
