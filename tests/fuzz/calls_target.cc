// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/logging.h"
#include "base/notification.h"
#include "base/strings.h"
#include "distributed/call_loop.h"
#include "distributed/call_server.h"
#include "distributed/call_transport.h"
#include "distributed/socket_sender.h"
#include "distributed/tcp_socket.h"
#include "tests/fuzz/fuzz_targets.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{10'000};
constexpr char kPeer[] = "/job:ps/replica:0/task:0";

[[noreturn]] void Fail(const std::string& what) {
  MR_LOG(Error) << "fuzzing: " << what;
  std::abort();
}

// Answers requests at once; one in four is answered when it is cancelled.
void Answer(const MessageBytes& request, CancellationManager& cancellation, Reply reply) {
  const std::string bytes = request.ToString();
  if (bytes.size() % 4 != 3) return reply(Status(), MessageBytes(bytes));
  const auto kept = std::make_shared<Reply>(std::move(reply));
  const auto token = cancellation.Register([kept] { (*kept)(errors::Cancelled("fuzzed"), {}); });
  if (token == CancellationManager::kInvalidToken) (*kept)(errors::Cancelled("fuzzed"), {});
}

// A server reads `bytes` from a peer that reads every reply and then closes its side.
void SendToServer(std::string_view bytes) {
  CallServer server([](Method, const MessageBytes& request, int64_t, CancellationManager& cancellation,
                       Reply reply) { Answer(request, cancellation, std::move(reply)); },
                    kPatience);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  FileDescriptor ours(ends[0]);
  server.Add(FileDescriptor(ends[1]));
  std::thread writer([&] {
    WriteAll(ours.get(), bytes, {}, kPatience).IgnoreError("the server may close the connection");
    ::shutdown(ours.get(), SHUT_WR);
  });
  // The end of the bytes ends the connection.
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  std::string replies(1 << 12, '\0');
  while (::recv(ours.get(), replies.data(), replies.size(), 0) > 0) {
    if (std::chrono::steady_clock::now() > limit) Fail("a connection is still open after its end");
  }
  writer.join();
  server.Stop(0);
}

// Returns the address of the peer.
class Directory : public Transport {
 public:
  explicit Directory(std::string address) : address_(std::move(address)) {}
  void Start(RemoteCall call, Reply reply) override {
    if (call.method == Method::kOpenCalls) return reply(Status(), MessageBytes(address_));
    reply(Status(), {});
  }

 private:
  const std::string address_;
};

// A client with two calls in progress gets `bytes` as the replies.
void SendToClient(std::string_view bytes) {
  StatusOr<FileDescriptor> listening = ListenOnTcp("127.0.0.1", 0);
  if (!listening.ok()) return;
  Notification called;
  std::thread peer([&] {
    const StatusOr<FileDescriptor> fd = AcceptOnTcp(listening->get());
    SocketRequest hello;
    if (!fd.ok() || !ReadAll(fd->get(), &hello, sizeof(hello), kPatience).status.ok()) return;
    const SocketAnswer granted{SocketAnswer::kGranted, 0};
    const std::string_view head(reinterpret_cast<const char*>(&granted), sizeof(granted));
    if (!WriteAll(fd->get(), head, {}, kPatience).ok()) return;
    called.Wait();
    WriteAll(fd->get(), bytes, {}, kPatience).IgnoreError("the client may close the connection");
    ::shutdown(fd->get(), SHUT_WR);
    std::string rest(1 << 12, '\0');
    while (::recv(fd->get(), rest.data(), rest.size(), 0) > 0) continue;
  });
  const SocketAddress address{PortOf(*listening), {1, 2}};
  {
    CallTransport transport(std::make_shared<Directory>(address.ToString()),
                            CallTransport::Options{.peers = {{kPeer, "127.0.0.1:1"}}, .patience = kPatience});
    const auto call = [&](Notification* answered) {
      transport.Start(RemoteCall{kPeer, Method::kRecvTensor, MessageBytes(std::string("call"))},
                      [answered](const Status&, const MessageBytes&) { answered->Notify(); });
    };
    Notification asked, first, second;
    call(&asked);
    const auto limit = std::chrono::steady_clock::now() + 2 * kPatience;
    while (transport.num_connections() == 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    call(&first);
    call(&second);
    called.Notify();
    for (Notification* const answered : {&asked, &first, &second}) {
      if (!answered->WaitUntil(limit)) Fail("a call has no answer");
    }
  }
  ShutDownSocket(listening->get());
  peer.join();
}

}  // namespace

void FuzzCalls(std::string_view bytes) {
  PrepareFuzzing();
  static auto* const loop = new std::shared_ptr<CallLoop>(CallLoop::Get());  // its threads stay
  if (*loop == nullptr || bytes.empty()) return;
  const bool to_client = (bytes.front() & 1) != 0;
  bytes.remove_prefix(1);
  if (to_client) {
    SendToClient(bytes);
  } else {
    SendToServer(bytes);
  }
}

}  // namespace millrace
