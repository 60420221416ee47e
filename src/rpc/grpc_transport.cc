// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "rpc/grpc_transport.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "millrace/ref.h"
#include "rpc/client_loop.h"
#include "rpc/grpc_buffer.h"
#include "rpc/grpc_options.h"
#include "step/worker.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

const std::string& PathOf(Method method) {
  static const auto* const paths = [] {
    auto* const all = new std::array<std::string, kNumMethods>;
    for (int i = 0; i < kNumMethods; ++i) (*all)[static_cast<size_t>(i)] = MethodPath(static_cast<Method>(i));
    return all;
  }();
  return (*paths)[static_cast<size_t>(method)];
}

std::string Seconds(steady_clock::duration time) {
  const auto tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return StrCat(tenths / 10, ".", tenths % 10, " s");
}

class GrpcTransport : public Transport, public Watcher {
 public:
  GrpcTransport(const std::map<std::string, std::string>& addresses, const TransportOptions& options)
      : security_(options.security),
        patience_(options.patience_in_ms),
        beat_every_(std::clamp<int64_t>(options.patience_in_ms / 5, 50, 1000)),
        loop_(ClientLoop::Get()) {
    for (const auto& [task, address] : addresses) {
      auto peer = std::make_unique<Peer>();
      peer->task = task;
      peer->address = address;
      peers_.emplace(task, std::move(peer));
    }
    loop_->Add(this);
  }
  ~GrpcTransport() override {
    loop_->Remove(this);
    MutexLock lock(mu_);
    for (Flight* flight : flights_) {
      flight->given_up = errors::Cancelled("The connection to ", flight->peer.task, " is closed");
      flight->context.TryCancel();
    }
    for (auto& [task, peer] : peers_) {
      if (peer->beat != nullptr) peer->beat->context.TryCancel();
    }
    while (!flights_.empty() || beats_ > 0) ended_.Wait(mu_);
  }

  void Start(RemoteCall call, Reply reply) override MR_EXCLUDES(mu_) {
    const auto it = peers_.find(call.task);
    if (it == peers_.end())
      return reply(errors::Unavailable("There is no task ", call.task, " in the cluster"), {});
    const RefPtr<Flight> flight = MakeRef<Flight>(*this, *it->second);
    if (call.timeout_in_ms > 0)
      flight->context.set_deadline(system_clock::now() + milliseconds(call.timeout_in_ms));
    // The caller of RecvTensor got the task from a master that has reached it: the task may have restarted
    // just now.
    const bool is_recv = call.method == Method::kRecvTensor;
    if (call.patience_in_ms > 0 || is_recv) flight->context.set_wait_for_ready(true);
    flight->patience = milliseconds(call.patience_in_ms > 0 ? call.patience_in_ms : patience_);
    flight->reply = std::move(reply);
    flight->method = call.method;
    flight->timeout_in_ms = call.timeout_in_ms;
    flight->cancellation = call.cancellation;
    // A step that is cancelled because of an error of its own answers with that error: its call is not cut.
    if (call.cancellation != nullptr && call.method == Method::kRunGraph) {
      // Unique by the first number, relaxed since nothing else goes by it.
      flight->number = std::to_string(first_number_ + next_number_.fetch_add(1, std::memory_order_relaxed));
      flight->context.AddMetadata(kCallNumber, flight->number);
    }
    ShowToken(flight->context);
    flight->reader =
        StubOf(flight->peer)
            .PrepareUnaryCall(&flight->context, PathOf(call.method), ToGrpc(call.request), &loop_->queue());
    flight->Ref();  // the queue's
    if (call.cancellation != nullptr) {
      flight->token = call.cancellation->Register([flight] { CancelFlight(*flight); });
      if (flight->token == CancellationManager::kInvalidToken) flight->context.TryCancel();
    }
    {
      MutexLock lock(mu_);
      flights_.insert(flight.get());
    }
    StartAndFinish(*flight);
  }

  void Look(steady_clock::time_point now, grpc::CompletionQueue& heartbeats) override MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    // A process that was stopped itself has received nothing.
    if (now - last_look_ > kStopped) {
      for (auto& [task, peer] : peers_) peer->heard = now;
    }
    last_look_ = now;
    for (Flight* flight : flights_) {
      Peer& peer = flight->peer;
      if (flight->cancelled_at && now - *flight->cancelled_at > kCancelGrace) flight->context.TryCancel();
      if (now - flight->start < beat_every_) continue;
      const auto silent = now - std::max(peer.heard, flight->start);
      if (silent > flight->patience && flight->given_up.ok()) {
        flight->given_up = errors::Unavailable(
            "Task ", peer.task, " at ", peer.address, " has been silent for ", Seconds(silent), ": ",
            MethodName(flight->method), " was abandoned after ", Seconds(now - flight->start));
        flight->context.TryCancel();
      }
      // gRPC reports to a call that waits for a connection.
      if (peer.beat != nullptr || now - peer.heard < beat_every_ || now - peer.beaten < beat_every_) continue;
      peer.beaten = now;
      Beat(peer, heartbeats);
    }
  }

 private:
  struct Beating;
  struct Peer {
    std::string task;
    std::string address;
    Mutex mu;
    std::unique_ptr<grpc::GenericStub> stub MR_GUARDED_BY(mu);
    // Under the transport's mu_:
    steady_clock::time_point heard = steady_clock::now();
    steady_clock::time_point beaten = heard;  // the last heartbeat
    Beating* beat = nullptr;                  // the heartbeat in progress
  };

  // A call in progress. Held by its event, and by the callback of the caller's cancellation.
  struct Flight : RefCounted, ClientEvent {
    Flight(GrpcTransport& t, Peer& p) : transport(t), peer(p) {}
    void Ended() override {
      transport.Finish(*this);
      Unref();
    }
    GrpcTransport& transport;
    Peer& peer;
    Method method = Method::kGetStatus;
    int64_t timeout_in_ms = 0;
    steady_clock::duration patience{};
    const steady_clock::time_point start = steady_clock::now();
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    Reply reply;
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = CancellationManager::kInvalidToken;
    std::string number;  // of a call that can be cancelled
    // Guarded by the transport's mu_:
    Status given_up;
    std::optional<steady_clock::time_point> cancelled_at;
    Mutex mu;
    bool ended MR_GUARDED_BY(mu) = false;
  };

  // A liveness request to the task; deletes itself.
  struct Beating : ClientEvent {
    Beating(GrpcTransport& t, Peer& p) : transport(t), peer(p) {}
    void Ended() override {
      {
        MutexLock lock(transport.mu_);
        if (Lives(status)) peer.heard = steady_clock::now();
        peer.beat = nullptr;
        --transport.beats_;
        transport.ended_.NotifyAll();
      }
      delete this;
    }
    GrpcTransport& transport;
    Peer& peer;
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };

  // Asks the task to cancel a call. When it has, the reply comes with the error that the task has had.
  static void CancelFlight(Flight& flight) MR_EXCLUDES(flight.mu) {
    // Under the lock: the transport lives as long as the call.
    MutexLock lock(flight.mu);
    if (flight.ended) return;
    if (flight.number.empty()) return flight.context.TryCancel();
    flight.transport.Cancel(flight);
  }
  void Cancel(Flight& flight) MR_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      flight.cancelled_at = steady_clock::now();
    }
    RemoteCall call{flight.peer.task, Method::kCancelCall, MessageBytes(flight.number)};
    call.timeout_in_ms = std::chrono::duration_cast<milliseconds>(kCancelGrace).count();
    Start(std::move(call), [held = ShareRef(&flight)](const Status& status, const MessageBytes&) {
      // It is no task of Millrace. A task that does not know the call has answered it already, or has not
      // received it yet.
      if (!status.ok() && !errors::IsNotFound(status)) held->context.TryCancel();
    });
  }

  // Whether there was a reply, possibly an error.
  static bool Lives(const grpc::Status& status) {
    return status.error_code() != grpc::StatusCode::UNAVAILABLE &&
           status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
           status.error_code() != grpc::StatusCode::CANCELLED;
  }

  grpc::GenericStub& StubOf(Peer& peer) const {
    MutexLock lock(peer.mu);
    if (peer.stub == nullptr) {
      grpc::ChannelArguments arguments;
      SetClientArguments(&arguments);
      peer.stub = std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(peer.address, ChannelCredentialsOf(security_), arguments));
    }
    return *peer.stub;
  }

  void ShowToken(grpc::ClientContext& context) const {
    if (!security_.token.empty()) context.AddMetadata(kTokenHeader, StrCat(kTokenPrefix, security_.token));
  }

  // Starts the call of a Flight or Beating, which may be destroyed when this returns.
  template <typename T>
  static void StartAndFinish(T& call) {
    auto* const reader = call.reader.get();
    auto* const response = &call.response;
    auto* const status = &call.status;
    void* const tag = call.Tag();
    reader->StartCall();
    reader->Finish(response, status, tag);
  }

  void Beat(Peer& peer, grpc::CompletionQueue& queue) MR_REQUIRES(mu_) {
    auto* const beat = new Beating(*this, peer);
    peer.beat = beat;
    ++beats_;
    beat->context.set_deadline(system_clock::now() + milliseconds(std::max<int64_t>(patience_, 1000)));
    ShowToken(beat->context);
    // The request of GetStatus is an empty message.
    beat->reader = StubOf(peer).PrepareUnaryCall(&beat->context, PathOf(Method::kGetStatus),
                                                 ToGrpc(MessageBytes()), &queue);
    StartAndFinish(*beat);
  }

  void Finish(Flight& flight) MR_EXCLUDES(mu_) {
    Status status;
    const bool marked =
        !flight.status.ok() && flight.context.GetServerTrailingMetadata().contains(kErrorMark);
    {
      MutexLock lock(mu_);
      if (marked || Lives(flight.status)) flight.peer.heard = steady_clock::now();
      status = flight.given_up;
    }
    {
      MutexLock lock(flight.mu);
      flight.ended = true;
    }
    if (status.ok() && !flight.status.ok()) status = marked ? FromGrpc(flight.status) : Named(flight);
    MessageBytes bytes;
    if (status.ok()) {
      StatusOr<MessageBytes> received = FromGrpc(flight.response);
      status = received.status();
      if (received.ok()) bytes = *std::move(received);
    }
    if (flight.token != CancellationManager::kInvalidToken) flight.cancellation->TryDeregister(flight.token);
    flight.reader.reset();
    flight.response.Clear();
    Reply reply = std::move(flight.reply);
    reply(std::move(status), std::move(bytes));
    reply = nullptr;
    MutexLock lock(mu_);
    flights_.erase(&flight);
    ended_.NotifyAll();
  }

  // An error of the connection.
  static Status Named(const Flight& flight) {
    const Peer& peer = flight.peer;
    const std::string& text = flight.status.error_message();
    switch (flight.status.error_code()) {
      case grpc::StatusCode::CANCELLED:
        if (flight.method == Method::kRunGraph) return errors::Cancelled("Step was cancelled");
        return errors::Cancelled(MethodName(flight.method), " at ", peer.task, " was cancelled");
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return errors::DeadlineExceeded(MethodName(flight.method), " at ", peer.task, " (", peer.address,
                                        ") has taken more than ", flight.timeout_in_ms, " ms");
      case grpc::StatusCode::UNIMPLEMENTED:
        return errors::Unimplemented("Task ", peer.task, " at ", peer.address, " does not implement ",
                                     PathOf(flight.method), ": ", text);
      default:
        return Status(static_cast<ErrorCode>(flight.status.error_code()),
                      StrCat("Task ", peer.task, " at ", peer.address, ": ", text, " (",
                             MethodName(flight.method), ")"));
    }
  }

  // The time that a task has to stop a cancelled call.
  static constexpr std::chrono::seconds kCancelGrace{2};
  // The normal interval between checks is much shorter.
  static constexpr std::chrono::seconds kStopped{1};

  const uint64_t first_number_ = static_cast<uint64_t>(StepIds::NextShared());
  std::atomic<uint64_t> next_number_{0};
  const ChannelSecurity security_;
  const int64_t patience_;
  const milliseconds beat_every_;
  const std::shared_ptr<ClientLoop> loop_;
  std::map<std::string, std::unique_ptr<Peer>> peers_;
  Mutex mu_;
  CondVar ended_;
  std::set<Flight*> flights_ MR_GUARDED_BY(mu_);
  int beats_ MR_GUARDED_BY(mu_) = 0;
  steady_clock::time_point last_look_ MR_GUARDED_BY(mu_) = steady_clock::now();
};

}  // namespace

StatusOr<std::shared_ptr<Transport>> ConnectWithGrpc(const std::map<std::string, std::string>& addresses,
                                                     const TransportOptions& options) {
  MR_RETURN_IF_ERROR(UseGrpc());
  return std::shared_ptr<Transport>(std::make_shared<GrpcTransport>(addresses, options));
}

}  // namespace millrace
