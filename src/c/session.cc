// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/session.h"

#include <cstdlib>
#include <cstring>
#include <iterator>

#include "tensorflow/core/protobuf/config.pb.h"

using millrace::Session;
using millrace::Status;
using millrace::Tensor;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

std::string NameOf(const TF_Output& tensor) { return StrCat(NodeOf(tensor.oper)->name(), ":", tensor.index); }

// The feeds, fetches and targets of a call. All belong to the graph of the session.
struct Names {
  std::vector<std::string> feeds, fetches, targets;
};

StatusOr<Names> NamesOfCall(const TF_Graph* graph, const RunCall& call) {
  const Graph* of = graph == nullptr ? nullptr : &graph->graph;
  Names names;
  for (const TF_Output& tensor : call.feeds) {
    MR_RETURN_IF_ERROR(CheckOutput(of, tensor));
    names.feeds.push_back(NameOf(tensor));
  }
  for (const TF_Output& tensor : call.fetches) {
    MR_RETURN_IF_ERROR(CheckOutput(of, tensor));
    names.fetches.push_back(NameOf(tensor));
  }
  for (const TF_Operation* target : call.targets) {
    if (target == nullptr) return NullArgument("A target");
    if (of != nullptr && &NodeOf(target)->graph() != of) {
      return errors::InvalidArgument("Node ", NodeOf(target)->name(), " was not found in the graph");
    }
    names.targets.push_back(NodeOf(target)->name());
  }
  return names;
}

// The arrays of a call. InvalidArgument for a null one that should hold something.
StatusOr<RunCall> MakeCall(const TF_Output* feeds, int nfeeds, const TF_Output* fetches, int nfetches,
                           const TF_Operation* const* targets, int ntargets) {
  if (nfeeds < 0 || nfetches < 0 || ntargets < 0) {
    return errors::InvalidArgument("The number of inputs, outputs or targets is negative");
  }
  if ((nfeeds > 0 && feeds == nullptr) || (nfetches > 0 && fetches == nullptr) ||
      (ntargets > 0 && targets == nullptr)) {
    return NullArgument("An array of inputs, outputs or targets");
  }
  return RunCall{{feeds, static_cast<size_t>(nfeeds)},
                 {fetches, static_cast<size_t>(nfetches)},
                 {targets, static_cast<size_t>(ntargets)}};
}

// `once`: to be released after the call, as the cache is full.
StatusOr<Session::CallableHandle> FindCallable(TF_Session& session, const RunCall& call, bool* once) {
  const uint64_t hash = CallableCache::Hash(call);
  Session::CallableHandle handle = session.callables.Find(hash, call);
  if (handle >= 0) [[likely]]
    return handle;
  MR_ASSIGN_OR_RETURN(Names names, NamesOfCall(session.graph, call));
  CallableOptions options;
  options.feeds = std::move(names.feeds);
  options.fetches = std::move(names.fetches);
  options.targets = std::move(names.targets);
  MR_ASSIGN_OR_RETURN(handle, session.session->MakeCallable(options));
  *once = !session.callables.Insert(hash, call, handle);
  return handle;
}

Status RunCallable(TF_Session& session, const RunCall& call, TF_Tensor* const* values, TF_Tensor** outputs) {
  Tensor few[4];
  std::vector<Tensor> many(call.feeds.size() > std::size(few) ? call.feeds.size() : 0);
  const std::span<Tensor> feeds(many.empty() ? few : many.data(), call.feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    MR_ASSIGN_OR_RETURN(feeds[i], ToTensor(values[i]));
  }
  bool once = false;
  MR_ASSIGN_OR_RETURN(const Session::CallableHandle handle, FindCallable(session, call, &once));
  std::vector<Tensor> fetched;
  const Status status = session.session->RunCallable(handle, feeds, &fetched, nullptr);
  if (once) session.session->ReleaseCallable(handle).IgnoreError("the handle was made above");
  MR_RETURN_IF_ERROR(status);
  return GiveOutputs(std::move(fetched), outputs);
}

Status CheckArrays(TF_Tensor* const* values, const RunCall& call, TF_Tensor** outputs) {
  if (!call.feeds.empty() && values == nullptr) return NullArgument("The array of input values");
  if (!call.fetches.empty() && outputs == nullptr) return NullArgument("The array of output values");
  for (size_t i = 0; i < call.fetches.size(); ++i) outputs[i] = nullptr;
  return Status();
}

}  // namespace

Status ExtendSession(TF_Session& session) {
  TF_Graph* graph = session.graph;
  // The acquire pairs with the release in TF_Graph::PublishNodes.
  if (graph == nullptr || session.seen_node_ids.load(std::memory_order_acquire) >=
                              graph->num_node_ids.load(std::memory_order_acquire)) {
    return Status();
  }
  MutexLock lock(graph->mu);
  graph->AwaitTurn();
  if (graph->IsBuilder()) return Status();  // gradients are incomplete
  MR_RETURN_IF_ERROR(session.session->ExtendFrom(graph->graph));
  session.seen_node_ids.store(graph->graph.num_node_ids(), std::memory_order_release);
  return Status();
}

Status ParseRunOptions(const TF_Buffer* buffer, RunOptions* options) {
  if (buffer == nullptr) return Status();
  tensorflow::RunOptions proto;
  if (!Parse(buffer->data, buffer->length, &proto)) {
    return errors::InvalidArgument("Unparseable RunOptions proto");
  }
  MR_ASSIGN_OR_RETURN(*options, RunOptions::FromProto(proto));
  return Status();
}

Status GiveOutputs(std::vector<Tensor> tensors, TF_Tensor** outputs) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto made = FromOutput(std::move(tensors[i]));
    if (made.ok()) {
      outputs[i] = *made;
      continue;
    }
    while (i-- > 0) TF_DeleteTensor(std::exchange(outputs[i], nullptr));
    return made.status();
  }
  return Status();
}

Status RunByName(Session& session, const TF_Buffer* run_options, const Session::Feeds& feeds,
                 const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                 TF_Tensor** outputs, TF_Buffer* run_metadata) {
  RunOptions options;
  MR_RETURN_IF_ERROR(ParseRunOptions(run_options, &options));
  if (run_metadata != nullptr && run_metadata->data != nullptr) {
    return errors::InvalidArgument("Passing non-empty run_metadata is invalid.");
  }
  std::vector<Tensor> fetched;
  RunMetadata metadata;
  const Status ran =
      session.Run(options, feeds, fetches, targets, &fetched, run_metadata == nullptr ? nullptr : &metadata);
  if (run_metadata != nullptr) {
    tensorflow::RunMetadata proto;
    metadata.ToProto(&proto);
    MR_RETURN_IF_ERROR(ToBuffer(proto, run_metadata));
  }
  MR_RETURN_IF_ERROR(ran);
  return GiveOutputs(std::move(fetched), outputs);
}

const char* NewHandle(const std::string& handle) {
  char* copy = new char[handle.size() + 1];
  std::memcpy(copy, handle.c_str(), handle.size() + 1);
  return copy;
}

StatusOr<std::vector<std::string>> NamesOf(const char* const* names, int count) {
  std::vector<std::string> result;
  if (count > 0 && names == nullptr) return NullArgument("An array of names");
  for (int i = 0; i < count; ++i) {
    if (names[i] == nullptr) return NullArgument("A name");
    result.emplace_back(names[i]);
  }
  return result;
}

StatusOr<Session::Feeds> FeedsOf(std::vector<std::string> names, TF_Tensor* const* values) {
  Session::Feeds feeds;
  if (!names.empty() && values == nullptr) return NullArgument("The array of input values");
  for (size_t i = 0; i < names.size(); ++i) {
    MR_ASSIGN_OR_RETURN(Tensor value, ToTensor(values[i]));
    feeds.emplace_back(std::move(names[i]), std::move(value));
  }
  return feeds;
}

}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_Session* TF_NewSession(TF_Graph* graph, const TF_SessionOptions* opts, TF_Status* status) {
  TF_Session* result = nullptr;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                        millrace::NewSession(opts == nullptr ? millrace::SessionOptions() : opts->options));
    result = new TF_Session(std::move(session), graph);
    Hold(graph);
    return Status();
  });
  return result;
}

void TF_CloseSession(TF_Session* session, TF_Status* status) {
  Enter(status, [&] { return session == nullptr ? NullArgument("The session") : session->session->Close(); });
}

void TF_DeleteSession(TF_Session* session, TF_Status* status) {
  Set(status, Status());
  if (session == nullptr) return;
  TF_Graph* graph = session->graph;
  delete session;
  Release(graph);
}

void TF_SessionRun(TF_Session* session, const TF_Buffer* run_options, const TF_Output* inputs,
                   TF_Tensor* const* input_values, int ninputs, const TF_Output* outputs,
                   TF_Tensor** output_values, int noutputs, const TF_Operation* const* target_opers,
                   int ntargets, TF_Buffer* run_metadata, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (session == nullptr) return NullArgument("The session");
    MR_ASSIGN_OR_RETURN(const RunCall call,
                        MakeCall(inputs, ninputs, outputs, noutputs, target_opers, ntargets));
    MR_RETURN_IF_ERROR(CheckArrays(input_values, call, output_values));
    MR_RETURN_IF_ERROR(ExtendSession(*session));
    if (run_options == nullptr && run_metadata == nullptr) [[likely]] {
      return RunCallable(*session, call, input_values, output_values);
    }
    MR_ASSIGN_OR_RETURN(Names names, NamesOfCall(session->graph, call));
    MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, FeedsOf(std::move(names.feeds), input_values));
    return RunByName(*session->session, run_options, feeds, names.fetches, names.targets, output_values,
                     run_metadata);
  });
}

void TF_SessionPRunSetup(TF_Session* session, const TF_Output* inputs, int ninputs, const TF_Output* outputs,
                         int noutputs, const TF_Operation* const* target_opers, int ntargets,
                         const char** handle, TF_Status* status) {
  if (handle != nullptr) *handle = nullptr;
  Enter(status, [&]() -> Status {
    if (session == nullptr || handle == nullptr) return NullArgument("The session or the handle");
    MR_ASSIGN_OR_RETURN(const RunCall call,
                        MakeCall(inputs, ninputs, outputs, noutputs, target_opers, ntargets));
    MR_RETURN_IF_ERROR(ExtendSession(*session));
    MR_ASSIGN_OR_RETURN(const Names names, NamesOfCall(session->graph, call));
    MR_ASSIGN_OR_RETURN(const std::string made,
                        session->session->PRunSetup(names.feeds, names.fetches, names.targets));
    *handle = NewHandle(made);
    return Status();
  });
}

void TF_DeletePRunHandle(const char* handle) { delete[] handle; }

void TF_SessionPRun(TF_Session* session, const char* handle, const TF_Output* inputs,
                    TF_Tensor* const* input_values, int ninputs, const TF_Output* outputs,
                    TF_Tensor** output_values, int noutputs, const TF_Operation* const* target_opers,
                    int ntargets, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (session == nullptr || handle == nullptr) return NullArgument("The session or the handle");
    MR_ASSIGN_OR_RETURN(const RunCall call,
                        MakeCall(inputs, ninputs, outputs, noutputs, target_opers, ntargets));
    MR_RETURN_IF_ERROR(CheckArrays(input_values, call, output_values));
    MR_RETURN_IF_ERROR(ExtendSession(*session));
    MR_ASSIGN_OR_RETURN(Names names, NamesOfCall(session->graph, call));
    MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, FeedsOf(std::move(names.feeds), input_values));
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(session->session->PRun(handle, feeds, names.fetches, &fetched));
    return GiveOutputs(std::move(fetched), output_values);
  });
}
