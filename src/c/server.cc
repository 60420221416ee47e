// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Servers of a cluster. There is no distributed runtime yet, so that none can be made: programs that use them
// link, and are told.
#include "c/internal.h"
#include "tensorflow/core/protobuf/tensorflow_server.pb.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): the doors to it
using millrace::Status;
namespace errors = millrace::errors;

namespace {

Status NoServers() { return errors::Unimplemented("Server functionality is not supported by this build"); }

}  // namespace

TF_Server* TF_NewServer(const void* proto, size_t proto_len, TF_Status* status) {
  Enter(status, [&]() -> Status {
    tensorflow::ServerDef def;
    if (!Parse(proto, proto_len, &def)) {
      return errors::InvalidArgument("Could not parse provided bytes into a ServerDef protocol buffer");
    }
    return NoServers();
  });
  return nullptr;
}

void TF_ServerStart(TF_Server* /*server*/, TF_Status* status) { Enter(status, NoServers); }
void TF_ServerStop(TF_Server* /*server*/, TF_Status* status) { Enter(status, NoServers); }
void TF_ServerJoin(TF_Server* /*server*/, TF_Status* status) { Enter(status, NoServers); }
const char* TF_ServerTarget(TF_Server* /*server*/) { return nullptr; }
void TF_DeleteServer(TF_Server* /*server*/) {}
