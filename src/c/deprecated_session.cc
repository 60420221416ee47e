// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions that are given GraphDefs, and name tensors by strings.
#include "c/session.h"
#include "graph/graph_import.h"
#include "tensorflow/core/framework/graph.pb.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::Session;
using millrace::Status;
using millrace::Tensor;
namespace errors = millrace::errors;

namespace {

Status CheckOutputs(TF_Tensor** outputs, int count) {
  if (count > 0 && outputs == nullptr) return NullArgument("The array of outputs");
  for (int i = 0; i < count; ++i) outputs[i] = nullptr;
  return Status();
}

}  // namespace

TF_DeprecatedSession* TF_NewDeprecatedSession(const TF_SessionOptions* options, TF_Status* status) {
  TF_DeprecatedSession* result = nullptr;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(
        std::unique_ptr<Session> session,
        millrace::NewSession(options == nullptr ? millrace::SessionOptions() : options->options));
    result = new TF_DeprecatedSession{std::move(session)};
    return Status();
  });
  return result;
}

void TF_CloseDeprecatedSession(TF_DeprecatedSession* session, TF_Status* status) {
  Enter(status, [&] { return session == nullptr ? NullArgument("The session") : session->session->Close(); });
}

void TF_DeleteDeprecatedSession(TF_DeprecatedSession* session, TF_Status* status) {
  Set(status, Status());
  delete session;
}

void TF_Reset(const TF_SessionOptions* opt, const char** containers, int ncontainers, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOf(containers, ncontainers));
    return millrace::Reset(opt == nullptr ? millrace::SessionOptions() : opt->options, names);
  });
}

void TF_ExtendGraph(TF_DeprecatedSession* session, const void* proto, size_t proto_len, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (session == nullptr) return NullArgument("The session");
    tensorflow::GraphDef def;
    if (!Parse(proto, proto_len, &def)) return errors::InvalidArgument("Invalid GraphDef");
    return session->session->Extend(std::move(def));
  });
}

void TF_Run(TF_DeprecatedSession* session, const TF_Buffer* run_options, const char** input_names,
            TF_Tensor** inputs, int ninputs, const char** output_names, TF_Tensor** outputs, int noutputs,
            const char** target_oper_names, int ntargets, TF_Buffer* run_metadata, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (session == nullptr) return NullArgument("The session");
    MR_RETURN_IF_ERROR(CheckOutputs(outputs, noutputs));
    MR_ASSIGN_OR_RETURN(std::vector<std::string> feed_names, NamesOf(input_names, ninputs));
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> fetches, NamesOf(output_names, noutputs));
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> targets, NamesOf(target_oper_names, ntargets));
    MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, FeedsOf(std::move(feed_names), inputs));
    return RunByName(*session->session, run_options, feeds, fetches, targets, outputs, run_metadata);
  });
}

void TF_PRunSetup(TF_DeprecatedSession* session, const char** input_names, int ninputs,
                  const char** output_names, int noutputs, const char** target_oper_names, int ntargets,
                  const char** handle, TF_Status* status) {
  if (handle != nullptr) *handle = nullptr;
  Enter(status, [&]() -> Status {
    if (session == nullptr || handle == nullptr) return NullArgument("The session or the handle");
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> feeds, NamesOf(input_names, ninputs));
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> fetches, NamesOf(output_names, noutputs));
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> targets, NamesOf(target_oper_names, ntargets));
    MR_ASSIGN_OR_RETURN(const std::string made, session->session->PRunSetup(feeds, fetches, targets));
    *handle = NewHandle(made);
    return Status();
  });
}

void TF_PRun(TF_DeprecatedSession* session, const char* handle, const char** input_names, TF_Tensor** inputs,
             int ninputs, const char** output_names, TF_Tensor** outputs, int noutputs,
             const char** /*target_oper_names*/, int /*ntargets*/, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (session == nullptr || handle == nullptr) return NullArgument("The session or the handle");
    MR_RETURN_IF_ERROR(CheckOutputs(outputs, noutputs));
    MR_ASSIGN_OR_RETURN(std::vector<std::string> feed_names, NamesOf(input_names, ninputs));
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> fetches, NamesOf(output_names, noutputs));
    MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, FeedsOf(std::move(feed_names), inputs));
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(session->session->PRun(handle, feeds, fetches, &fetched));
    return GiveOutputs(std::move(fetched), outputs);
  });
}
