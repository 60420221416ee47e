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

// In the trailer of a reply that is an error of the task, and not of the connection.
inline constexpr char kErrorMark[] = "millrace-error";

// In the header of a call that can be cancelled by CancelCall: a number that no other call has. CancelCall
// has it as its whole message.
inline constexpr char kCallNumber[] = "millrace-call";

// In the header of a call where the cluster has a token: "Bearer <token>".
inline constexpr char kTokenHeader[] = "authorization";
inline constexpr char kTokenPrefix[] = "Bearer ";

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const ChannelSecurity& security);
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const ChannelSecurity& security);

// What both sides of a connection have: messages of any size in large frames.
void SetServerArguments(grpc::ServerBuilder* builder);
void SetClientArguments(grpc::ChannelArguments* arguments);

}  // namespace millrace
