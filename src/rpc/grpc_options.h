// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributed/security.h"

namespace grpc {
class ChannelArguments;
class ChannelCredentials;
class ServerBuilder;
class ServerCredentials;
}  // namespace grpc

namespace millrace {

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
