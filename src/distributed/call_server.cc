// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/call_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "base/mutex.h"
#include "distributed/call_loop.h"
#include "distributed/call_socket.h"

namespace millrace {
namespace {

constexpr size_t kMostConnections = 1024;
// The most calls of a peer in progress. A peer makes one for each tensor that it waits for.
constexpr size_t kMostCalls = 1 << 16;
// Replies that a peer has not read, before no more of its calls are read.
constexpr size_t kMostUnread = 1 << 12;
constexpr size_t kMostErrorText = 64 << 10;
// The kernel detects a machine that cannot be reached.
constexpr int kKeepAliveSeconds = 30;

bool IsAnswered(Method method) {
  return method == Method::kRunGraph || method == Method::kRecvTensor || method == Method::kCleanupGraph;
}

}  // namespace

struct CallServer::State {
  State(CallHandler h, std::chrono::milliseconds p) : handler(std::move(h)), patience(p) {}

  // Counts a call and its handler; false when none may begin.
  bool Begin() MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    if (stopped) return false;
    in_progress += 2;
    return true;
  }
  void Ended() MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    if (--in_progress == 0) idle.NotifyAll();
  }
  void Forget(Connection* connection) MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    connections.erase(connection);
    if (connections.empty()) idle.NotifyAll();
  }

  const CallHandler handler;  // is not called after Stop
  const std::chrono::milliseconds patience;
  Mutex mu;
  CondVar idle;
  std::shared_ptr<CallLoop> loop MR_GUARDED_BY(mu);
  bool stopped MR_GUARDED_BY(mu) = false;
  int64_t in_progress MR_GUARDED_BY(mu) = 0;
  std::set<Connection*> connections MR_GUARDED_BY(mu);
};

// The calls of one peer.
class CallServer::Connection : public CallSocket {
 public:
  Connection(std::shared_ptr<State> server, CallLoop& loop, FileDescriptor fd)
      : CallSocket(loop, std::move(fd), kMostRequest, kMostUnread), server_(std::move(server)) {}

 private:
  // A call until its reply.
  struct Call : RefCounted {
    CancellationManager cancellation;
  };

  StatusOr<Work> OnFrame(const CallHeader& frame, MessageBytes bytes) override MR_EXCLUDES(mu_) {
    switch (frame.kind) {
      case CallHeader::kPing:
        Send({.kind = CallHeader::kPong});
        return Work();
      case CallHeader::kRequest:
        return OnRequest(frame, std::move(bytes));
      case CallHeader::kCancel: {
        MutexLock lock(mu_);
        const auto it = calls_.find(frame.call);
        if (it == calls_.end()) return Work();
        return Work([self = ShareRef(this), call = it->second] { call->cancellation.StartCancel(); });
      }
      default:
        return errors::InvalidArgument("Received a message of an unknown kind");
    }
  }

  StatusOr<Work> OnRequest(const CallHeader& frame, MessageBytes bytes) MR_EXCLUDES(mu_) {
    const auto method = static_cast<Method>(frame.method);
    if (frame.method >= static_cast<uint32_t>(kNumMethods) || !IsAnswered(method))
      return errors::InvalidArgument("A call of an unknown method");
    const RefPtr<Call> call = MakeRef<Call>();
    {
      MutexLock lock(mu_);
      if (calls_.size() >= kMostCalls) return errors::ResourceExhausted("Too many calls at the same time");
      if (!calls_.emplace(frame.call, call).second)
        return errors::InvalidArgument("Two calls with the same number");
    }
    // The end of the connection may cancel it as soon as it is listed.
    if (!server_->Begin()) {
      Forget(frame.call);
      SendError(frame.call, errors::Unavailable("The server is stopping"));
      return Work();
    }
    return Work([self = ShareRef(this), call, method, number = frame.call, limit = frame.number,
                 request = std::move(bytes)]() mutable {
      const CallHandler& handle = self->server_->handler;
      handle(method, std::move(request), std::max<int64_t>(limit, 0), call->cancellation,
             [self, call, number](const Status& status, MessageBytes response) {
               self->Forget(number);
               if (status.ok() && response.size() <= kMostResponse) {
                 self->Send({.kind = CallHeader::kResponse, .call = number}, std::move(response));
               } else {
                 self->SendError(number, status.ok() ? errors::ResourceExhausted(
                                                           "A response exceeds the size of a message")
                                                     : status);
               }
               self->server_->Ended();
             });
      self->server_->Ended();
    });
  }

  void SendError(uint64_t number, const Status& status) {
    std::string text = status.message();
    if (text.size() > kMostErrorText) {
      text.resize(kMostErrorText);
      text += " ... [truncated]";
    }
    Send({.kind = CallHeader::kError, .call = number, .number = static_cast<int64_t>(status.code())},
         MessageBytes(std::move(text)));
  }

  void Forget(uint64_t number) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    calls_.erase(number);
  }

  void OnEnd(const Status& why) override MR_EXCLUDES(mu_) {
    if (!errors::IsUnavailable(why)) MR_LOG(Warning) << "A connection for calls is closed: " << why;
    decltype(calls_) calls;
    {
      MutexLock lock(mu_);
      calls.swap(calls_);
    }
    // Nobody waits for the replies any more.
    for (const auto& [number, call] : calls) call->cancellation.StartCancel();
    server_->Forget(this);
  }

  void OnTick() override {
    if (stuck_ticks() * CallLoop::kTick < server_->patience) return;
    End(errors::Unavailable("The peer does not read the replies"));
  }

  const std::shared_ptr<State> server_;
  Mutex mu_;
  std::unordered_map<uint64_t, RefPtr<Call>> calls_ MR_GUARDED_BY(mu_);
};

CallServer::CallServer(CallHandler handler, std::chrono::milliseconds patience)
    : state_(std::make_shared<State>(std::move(handler), patience)) {}

CallServer::~CallServer() { Stop(0); }

void CallServer::Add(FileDescriptor fd) {
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveSeconds, sizeof(kKeepAliveSeconds));
  MutexLock lock(state_->mu);
  if (state_->stopped || state_->connections.size() >= kMostConnections) return;  // closes it
  if (state_->loop == nullptr) state_->loop = CallLoop::Get();
  if (state_->loop == nullptr) return;
  const auto connection = MakeRef<Connection>(state_, *state_->loop, std::move(fd));
  state_->connections.insert(connection.get());
  if (!connection->Open().ok()) state_->connections.erase(connection.get());
}

void CallServer::Stop(int64_t grace_in_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(grace_in_ms);
  std::vector<RefPtr<Connection>> connections;
  {
    MutexLock lock(state_->mu);
    state_->stopped = true;
    while (state_->in_progress > 0 && state_->idle.WaitUntil(state_->mu, deadline)) continue;
    for (Connection* const connection : state_->connections) connections.push_back(ShareRef(connection));
  }
  for (const auto& connection : connections)
    connection->End(errors::Unavailable("The task is shutting down"));
  connections.clear();
  std::shared_ptr<CallLoop> loop;  // destroyed after the lock is released
  MutexLock lock(state_->mu);
  while (state_->in_progress > 0 || !state_->connections.empty()) state_->idle.Wait(state_->mu);
  loop = std::move(state_->loop);
}

size_t CallServer::num_connections() const {
  MutexLock lock(state_->mu);
  return state_->connections.size();
}

}  // namespace millrace
