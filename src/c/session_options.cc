// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/session.h"
#include "tensorflow/core/protobuf/config.pb.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::Status;

TF_SessionOptions* TF_NewSessionOptions(void) {
  return EnterOr<TF_SessionOptions*>(nullptr, [] { return new TF_SessionOptions; });
}

void TF_DeleteSessionOptions(TF_SessionOptions* options) { delete options; }

void TF_SetTarget(TF_SessionOptions* options, const char* target) {
  if (options != nullptr) options->options.target = OrEmpty(target);
}

void TF_SetConfig(TF_SessionOptions* options, const void* proto, size_t proto_len, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (options == nullptr) return NullArgument("The session options");
    tensorflow::ConfigProto config;
    if (!Parse(proto, proto_len, &config)) {
      return millrace::errors::InvalidArgument("Unparseable ConfigProto");
    }
    MR_ASSIGN_OR_RETURN(millrace::SessionOptions parsed, millrace::SessionOptions::FromProto(config));
    parsed.target = options->options.target;
    options->options = std::move(parsed);
    return Status();
  });
}
