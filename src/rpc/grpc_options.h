// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributed/security.h"
#include "millrace/status.h"

namespace grpc {
class ChannelArguments;
class ChannelCredentials;
class ServerBuilder;
class ServerCredentials;
}  // namespace grpc

namespace millrace {

// To be called before anything of gRPC is created: starts gRPC for the rest of the process. Its end with the
// last connection would wait up to 10 s after a message that did not fit in the buffers of a socket, and
// block the next start meanwhile. In a child of fork(), gRPC does not work after a use by the parent:
// FailedPrecondition.
Status UseGrpc();

// In the trailer of a reply: the error is one of the task, and not of the connection.
inline constexpr char kErrorMark[] = "millrace-error";

// In the header of a call that can be cancelled by CancelCall: the unique number of the call. It is the whole
// message of CancelCall.
inline constexpr char kCallNumber[] = "millrace-call";

// In the header of a call if the cluster has a token: "Bearer <token>".
inline constexpr char kTokenHeader[] = "authorization";
inline constexpr char kTokenPrefix[] = "Bearer ";

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const ChannelSecurity& security);
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const ChannelSecurity& security);

// Options of both sides of a connection: messages of any size in large frames.
void SetServerArguments(grpc::ServerBuilder* builder);
void SetClientArguments(grpc::ChannelArguments* arguments);

}  // namespace millrace
