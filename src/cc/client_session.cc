// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/client_session.h"

#include <string>

#include "base/mutex.h"
#include "cc/scope_state.h"
#include "graph/graph.h"

namespace millrace {
namespace {

// The name of entry `i` of the feeds, fetches or operations, which must be of this graph.
template <typename T>
StatusOr<std::string> NameIn(const Graph& graph, const T& thing, std::string_view what, size_t i) {
  if (!thing.IsSet()) return errors::InvalidArgument(what, " ", i, " is unset");
  if (&thing.node->graph() == &graph) return Scope::NameOf(thing);
  return errors::InvalidArgument(what, " ", i, ", '", Scope::NameOf(thing), "', belongs to another graph");
}

template <typename T>
StatusOr<std::vector<std::string>> NamesOf(const Graph& graph, const std::vector<T>& things,
                                           std::string_view what) {
  std::vector<std::string> names;
  names.reserve(things.size());
  for (const T& thing : things) {
    MR_ASSIGN_OR_RETURN(std::string name, NameIn(graph, thing, what, names.size()));
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

struct ClientSession::State {
  explicit State(const Scope& s) : scope(s) {}

  // Gives the session the nodes that it does not have yet.
  Status CatchUp() MR_EXCLUDES(mu) {
    MR_RETURN_IF_ERROR(made);
    MR_RETURN_IF_ERROR(scope.status());
    MutexLock lock(mu);
    const int ids = scope.graph().num_node_ids();
    if (ids == seen_ids) return Status();
    MR_RETURN_IF_ERROR(session->ExtendFrom(scope.graph()));
    seen_ids = ids;
    return Status();
  }

  const Scope scope;
  std::unique_ptr<Session> session;
  Status made;
  Mutex mu;
  int seen_ids MR_GUARDED_BY(mu) = 0;
};

ClientSession::ClientSession(const Scope& scope, const SessionOptions& options)
    : state_(std::make_unique<State>(scope)) {
  auto session = NewSession(options);
  if (session.ok()) {
    state_->session = *std::move(session);
  } else {
    state_->made = session.status();
  }
}

ClientSession::~ClientSession() = default;

const Scope& ClientSession::scope() const { return state_->scope; }
Session* ClientSession::session() const { return state_->session.get(); }

Status ClientSession::Run(const std::vector<Output>& fetches, std::vector<Tensor>* outputs) const {
  return Run(RunOptions(), {}, fetches, {}, outputs, nullptr);
}

Status ClientSession::Run(const Feeds& feeds, const std::vector<Output>& fetches,
                          std::vector<Tensor>* outputs) const {
  return Run(RunOptions(), feeds, fetches, {}, outputs, nullptr);
}

Status ClientSession::Run(const Feeds& feeds, const std::vector<Output>& fetches,
                          const std::vector<Operation>& operations, std::vector<Tensor>* outputs) const {
  return Run(RunOptions(), feeds, fetches, operations, outputs, nullptr);
}

Status ClientSession::Run(const RunOptions& options, const Feeds& feeds, const std::vector<Output>& fetches,
                          const std::vector<Operation>& operations, std::vector<Tensor>* outputs,
                          RunMetadata* metadata) const {
  MR_RETURN_IF_ERROR(state_->CatchUp());
  Session::Feeds named;
  named.reserve(feeds.size());
  for (const auto& [tensor, value] : feeds) {
    MR_ASSIGN_OR_RETURN(std::string name, NameIn(state_->scope.graph(), tensor, "feed", named.size()));
    if (!value.status().ok()) return value.status().WithContext(StrCat("; fed to '", name, "'"));
    named.emplace_back(std::move(name), value.tensor());
  }
  MR_ASSIGN_OR_RETURN(const auto fetch_names, NamesOf(state_->scope.graph(), fetches, "fetch"));
  MR_ASSIGN_OR_RETURN(const auto targets, NamesOf(state_->scope.graph(), operations, "operation"));
  return state_->session->Run(options, named, fetch_names, targets, outputs, metadata);
}

StatusOr<Session::CallableHandle> ClientSession::MakeCallable(
    const std::vector<Output>& feeds, const std::vector<Output>& fetches,
    const std::vector<Operation>& operations) const {
  MR_RETURN_IF_ERROR(state_->CatchUp());
  CallableOptions options;
  MR_ASSIGN_OR_RETURN(options.feeds, NamesOf(state_->scope.graph(), feeds, "feed"));
  MR_ASSIGN_OR_RETURN(options.fetches, NamesOf(state_->scope.graph(), fetches, "fetch"));
  MR_ASSIGN_OR_RETURN(options.targets, NamesOf(state_->scope.graph(), operations, "operation"));
  return state_->session->MakeCallable(options);
}

Status ClientSession::RunCallable(Session::CallableHandle callable, std::span<const Tensor> feeds,
                                  std::vector<Tensor>* outputs) const {
  MR_RETURN_IF_ERROR(state_->made);
  return state_->session->RunCallable(callable, feeds, outputs, nullptr);
}

Status ClientSession::ReleaseCallable(Session::CallableHandle callable) const {
  MR_RETURN_IF_ERROR(state_->made);
  return state_->session->ReleaseCallable(callable);
}

}  // namespace millrace
