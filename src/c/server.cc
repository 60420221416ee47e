// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Servers of a cluster.
#include "c/internal.h"
#include "millrace/cluster.h"
#include "tensorflow/core/protobuf/tensorflow_server.pb.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::Server;
using millrace::Status;
namespace errors = millrace::errors;

struct TF_Server {
  std::unique_ptr<Server> server;
};

TF_Server* TF_NewServer(const void* proto, size_t proto_len, TF_Status* status) {
  std::unique_ptr<TF_Server> made;
  Enter(status, [&]() -> Status {
    tensorflow::ServerDef def;
    if (!Parse(proto, proto_len, &def)) {
      return errors::InvalidArgument("Could not parse provided bytes into a ServerDef protocol buffer");
    }
    MR_ASSIGN_OR_RETURN(const millrace::ServerOptions options, millrace::ServerOptions::FromProto(def));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Make(options));
    made = std::make_unique<TF_Server>(TF_Server{std::move(server)});
    return Status();
  });
  return made.release();
}

void TF_ServerStart(TF_Server* server, TF_Status* status) {
  Enter(status, [&] { return server == nullptr ? NullArgument("The server") : server->server->Start(); });
}

void TF_ServerStop(TF_Server* server, TF_Status* status) {
  Enter(status, [&] { return server == nullptr ? NullArgument("The server") : server->server->Stop(); });
}

void TF_ServerJoin(TF_Server* server, TF_Status* status) {
  Enter(status, [&] { return server == nullptr ? NullArgument("The server") : server->server->Join(); });
}

const char* TF_ServerTarget(TF_Server* server) {
  return server == nullptr ? nullptr : server->server->target().c_str();
}

void TF_DeleteServer(TF_Server* server) {
  EnterOr(0, [&] {
    delete server;
    return 0;
  });
}
