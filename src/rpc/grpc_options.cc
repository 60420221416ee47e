// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "rpc/grpc_options.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <array>
#include <utility>

#include "base/fork.h"

namespace millrace {
namespace {

constexpr std::array<std::pair<const char*, int>, 6> kBoth = {{
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1},
    {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 16777215},
    // The number of bytes that may be in flight before the reader requests more.
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20},
    {GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 64 << 10},
    {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20},
}};
constexpr int kFirstReconnectMs = 100;
constexpr int kReconnectMs = 1000;

}  // namespace

Status UseGrpc() {
  static const auto* const start = [] {
    grpc_init();
    return new ForkMark;
  }();
  if (start->is_of_this_process()) return Status();
  return errors::FailedPrecondition(
      "This process was made by fork() from one that has used gRPC, which does not work in such a child: "
      "start "
      "the process anew (in Python: multiprocessing's start method \"spawn\")");
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const ChannelSecurity& security) {
  if (security.certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(security.ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = security.ca;
  options.pem_key_cert_pairs.push_back({security.key, security.certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const ChannelSecurity& security) {
  if (!security.encrypts()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = security.ca;
  options.pem_private_key = security.key;
  options.pem_cert_chain = security.certificate;
  return grpc::SslCredentials(options);
}

void SetServerArguments(grpc::ServerBuilder* builder) {
  for (const auto& [name, value] : kBoth) builder->AddChannelArgument(name, value);
  builder->SetMaxReceiveMessageSize(-1);
  builder->SetMaxSendMessageSize(-1);
}

void SetClientArguments(grpc::ChannelArguments* arguments) {
  for (const auto& [name, value] : kBoth) arguments->SetInt(name, value);
  // Reconnects soon to a task that has restarted.
  arguments->SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments->SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments->SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  // Connections belong to one transport.
  arguments->SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments->SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
}

}  // namespace millrace
