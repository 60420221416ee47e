// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/socket_sender.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "base/random/philox.h"
#include "base/strings.h"

namespace millrace {
namespace {

constexpr size_t kMostConnections = 256;
// The most tokens; old ones, of receivers that never came, are dropped.
constexpr size_t kMostGrants = 4096;
constexpr size_t kMostCallers = 1024;  // that have a token but no connection yet
// A connection without requests is closed.
constexpr std::chrono::seconds kIdle{30};
constexpr size_t kTokenDigits = 32;
constexpr int kMostPorts = 65535;

}  // namespace

std::string SocketAddress::ToString() const {
  return StrCat(port, "/", HexEncode({reinterpret_cast<const char*>(token.data()), sizeof(token)}));
}

StatusOr<SocketAddress> SocketAddress::Parse(std::string_view text) {
  SocketAddress address;
  const size_t slash = text.find('/');
  const auto port = SafeStringToInt32(text.substr(0, std::min(slash, text.size())));
  const auto token = slash == std::string_view::npos || text.size() != slash + 1 + kTokenDigits
                         ? std::nullopt
                         : HexDecode(text.substr(slash + 1));
  if (!port || *port < 1 || *port > kMostPorts || !token)
    return errors::InvalidArgument("The address of a data socket is malformed");
  address.port = *port;
  std::memcpy(address.token.data(), token->data(), sizeof(address.token));
  return address;
}

SocketSender::SocketSender(std::shared_ptr<HeldTensors> held, const Options& options, WaitingThreads& threads)
    : held_(std::move(held)), options_(options), threads_(threads) {}

size_t SocketSender::num_connections() const {
  MutexLock lock(mu_);
  return connections_.size();
}

size_t SocketSender::num_grants() const {
  MutexLock lock(mu_);
  return grants_.size();
}

Status SocketSender::Listen() {
  if (stopped_) return errors::Unavailable("The task is shutting down");
  MR_RETURN_IF_ERROR(broken_);
  if (port_ == 0) {
    auto listening = ListenOnTcp(options_.listen, options_.port);
    if (!listening.ok()) {
      broken_ = listening.status();
      MR_LOG(Warning) << "Tensors are sent without data sockets: " << broken_;
      return broken_;
    }
    listening_ = *std::move(listening);
    UniqueFunction<void()> accept = [this] { Accept(); };
    if (!threads_.TrySchedule(accept)) {
      listening_ = FileDescriptor();
      return errors::ResourceExhausted("Could not start a thread for sockets");
    }
    port_ = PortOf(listening_);
  }
  return Status();
}

StatusOr<SocketAddress> SocketSender::AddressForCalls() {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(Listen());
  if (for_calls_.size() >= kMostCallers) for_calls_.pop_front();
  return SocketAddress{port_, for_calls_.emplace_back(Token{RandomSeed64(), RandomSeed64()})};
}

StatusOr<SocketAddress> SocketSender::AddressFor(int64_t num_bytes) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(Listen());
  while (grants_.size() >= kMostGrants || order_.size() >= 2 * kMostGrants) {
    grants_.erase(order_.front());
    order_.pop_front();
  }
  SocketAddress address{port_, {RandomSeed64(), RandomSeed64()}};
  grants_[address.token] = {0, num_bytes, num_bytes, 0};
  order_.push_back(address.token);
  return address;
}

void SocketSender::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  if (listening_.valid()) ShutDownSocket(listening_.get());
  for (const int fd : connections_) ShutDownSocket(fd);
}

void SocketSender::Accept() {
  while (true) {
    StatusOr<FileDescriptor> accepted = AcceptOnTcp(listening_.get());
    MutexLock lock(mu_);
    if (stopped_) return;
    if (!accepted.ok()) {
      broken_ = accepted.status();
      MR_LOG(Warning) << "Tensors are sent without data sockets: " << broken_;
      return;
    }
    if (connections_.size() >= kMostConnections) continue;  // closes it
    const auto fd = std::make_shared<FileDescriptor>(*std::move(accepted));
    UniqueFunction<void()> serve = [this, fd] { Serve(*fd); };
    if (threads_.TrySchedule(serve)) connections_.insert(fd->get());  // else closes it
  }
}

bool SocketSender::HandOver(FileDescriptor& fd, const SocketRequest& request) {
  if (request.magic != SocketRequest::kCallsMagic || !options_.take_calls) return false;
  {
    MutexLock lock(mu_);
    if (std::erase(for_calls_, request.token) == 0) return false;  // closes it
    connections_.erase(fd.get());
  }
  const SocketAnswer answer{SocketAnswer::kGranted, 0};
  const std::string_view text(reinterpret_cast<const char*>(&answer), sizeof(answer));
  if (WriteAll(fd.get(), text, {}, options_.patience).ok()) options_.take_calls(std::move(fd));
  return true;
}

void SocketSender::Serve(FileDescriptor& fd) {
  while (true) {
    SocketRequest request;
    if (!ReadAll(fd.get(), &request, sizeof(request), kIdle).status.ok()) break;
    if (HandOver(fd, request)) return;
    const Status status = Answer(fd.get(), request);
    if (status.ok()) continue;
    if (!errors::IsUnavailable(status)) MR_LOG(Warning) << "A data socket is closed: " << status;
    break;
  }
  MutexLock lock(mu_);
  connections_.erase(fd.get());  // before the number is reused for another connection
}

StatusOr<Tensor> SocketSender::Admit(const SocketRequest& request) {
  const auto refused = [] {
    return errors::PermissionDenied("A receiver is not allowed to request this tensor");
  };
  {
    MutexLock lock(mu_);
    const auto it = grants_.find(request.token);
    if (it == grants_.end()) return refused();
    Grant& grant = it->second;
    if (grant.ticket == 0) grant.ticket = request.ticket;
    if (grant.ticket != request.ticket || request.num_bytes <= 0 || request.num_bytes > grant.left ||
        request.offset < 0 || request.offset > grant.num_bytes - request.num_bytes)
      return refused();
    grant.left -= request.num_bytes;
  }
  MR_ASSIGN_OR_RETURN(Tensor tensor, held_->Find(request.ticket));
  const auto size = static_cast<int64_t>(tensor.num_bytes());
  if (request.offset > size - request.num_bytes) return refused();
  return tensor;
}

void SocketSender::Sent(const SocketRequest& request) {
  int64_t all = 0;
  {
    MutexLock lock(mu_);
    const auto it = grants_.find(request.token);
    if (it == grants_.end()) return;
    it->second.sent += request.num_bytes;
    if (it->second.sent < it->second.num_bytes) return;
    all = it->second.num_bytes;
    grants_.erase(it);
  }
  held_->Sent(request.ticket, all);
}

Status SocketSender::Answer(int fd, const SocketRequest& request) {
  if (request.magic != SocketRequest::kMagic)
    return errors::InvalidArgument("a peer does not use Millrace's protocol");
  SocketAnswer answer;
  const StatusOr<Tensor> tensor = Admit(request);
  std::string_view bytes;
  if (tensor.ok()) {
    answer = {SocketAnswer::kGranted, request.num_bytes};
    bytes = {static_cast<const char*>(tensor->raw_data()) + request.offset,
             static_cast<size_t>(request.num_bytes)};
  }
  const std::string_view head(reinterpret_cast<const char*>(&answer), sizeof(answer));
  MR_RETURN_IF_ERROR(WriteAll(fd, head, bytes, options_.patience));
  if (errors::IsPermissionDenied(tensor.status())) return tensor.status();
  if (tensor.ok()) Sent(request);
  return Status();
}

}  // namespace millrace
