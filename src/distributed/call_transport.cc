// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/call_transport.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "base/strings.h"
#include "distributed/call_socket.h"
#include "distributed/socket_sender.h"
#include "distributed/tcp_socket.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kConnectPatience{2000};
// The time for a task to stop a cancelled call.
constexpr std::chrono::seconds kCancelGrace{2};
// A task that can't be reached may be about to restart.
constexpr std::chrono::seconds kRetryAway{1};
// A machine has a limit of connections; calls to further tasks use the underlying transport.
constexpr size_t kMostPeers = 256;

bool IsCarried(const RemoteCall& call) {
  const bool of_step = call.method == Method::kRunGraph || call.method == Method::kRecvTensor ||
                       call.method == Method::kCleanupGraph;
  return of_step && call.patience_in_ms == 0 && call.request.size() <= CallSocket::kMostRequest;
}

std::string Seconds(steady_clock::duration time) {
  const auto tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return StrCat(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

// The calls to one task.
class CallTransport::Connection : public CallSocket {
 public:
  Connection(CallLoop& loop, FileDescriptor fd, std::string task, std::string address, milliseconds patience)
      : CallSocket(loop, std::move(fd), kMostResponse),
        task_(std::move(task)),
        address_(std::move(address)),
        patience_(patience) {}

  // False, with both unchanged, if the connection has ended.
  bool Start(RemoteCall& call, Reply& reply) MR_EXCLUDES(mu_) {
    uint64_t number = 0;
    CancellationManager* const cancellation = call.cancellation;
    {
      MutexLock lock(mu_);
      if (ended_) return false;
      number = next_number_++;
      if (flights_.empty()) silent_ticks_ = 0;
    }
    Flight flight;
    flight.method = call.method;
    flight.timeout_in_ms = call.timeout_in_ms;
    flight.cancellation = cancellation;
    if (cancellation != nullptr)
      flight.token = cancellation->Register([self = ShareRef(this), number] { self->Cancel(number); });
    const bool is_cancelled = cancellation != nullptr && flight.token == CancellationManager::kInvalidToken;
    if (is_cancelled) {
      Reply gone = std::move(reply);
      gone(Cancelled(call.method), {});
      return true;
    }
    bool cancelled = false;
    {
      MutexLock lock(mu_);
      if (ended_) {
        if (cancellation != nullptr) cancellation->TryDeregister(flight.token);
        return false;
      }
      // Its callback has run, or will find the call.
      cancelled = cancellation != nullptr && cancellation->IsCancelled();
      flight.reply = std::move(reply);
      flights_.emplace(number, std::move(flight));
    }
    // If the connection ends, the call is answered.
    Send({.kind = CallHeader::kRequest,
          .method = static_cast<uint32_t>(call.method),
          .call = number,
          .number = call.timeout_in_ms},
         std::move(call.request));
    if (cancellation == nullptr) return true;
    if (cancelled) Cancel(number);
    // The message that cancels it may have overtaken the request.
    {
      MutexLock lock(mu_);
      const auto it = flights_.find(number);
      cancelled = it == flights_.end() || it->second.cancelled_at.has_value();
    }
    if (cancelled) Send({.kind = CallHeader::kCancel, .call = number});
    return true;
  }

  bool ended() const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return ended_;
  }
  bool drained() const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return ended_ && replying_ == 0;
  }
  // Waits until no reply is being called. REQUIRES: End.
  void Drain() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!flights_.empty() || replying_ > 0) drained_.Wait(mu_);
  }

 private:
  struct Flight {
    Method method = Method::kRunGraph;
    int64_t timeout_in_ms = 0;
    steady_clock::time_point start = steady_clock::now();
    std::optional<steady_clock::time_point> cancelled_at = {};
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = CancellationManager::kInvalidToken;
    Reply reply = {};
  };

  // Removes a call, so that it is answered once. REQUIRES: Answer follows.
  std::optional<Flight> Take(uint64_t number) MR_REQUIRES(mu_) {
    const auto it = flights_.find(number);
    if (it == flights_.end()) return std::nullopt;
    std::optional<Flight> flight(std::move(it->second));
    flights_.erase(it);
    ++replying_;
    return flight;
  }
  void Answer(Flight flight, Status status, MessageBytes bytes) MR_EXCLUDES(mu_) {
    if (flight.token != CancellationManager::kInvalidToken) flight.cancellation->TryDeregister(flight.token);
    flight.reply(std::move(status), std::move(bytes));
    flight.reply = nullptr;
    MutexLock lock(mu_);
    if (--replying_ == 0) drained_.NotifyAll();
  }

  StatusOr<Work> OnFrame(const CallHeader& frame, MessageBytes bytes) override MR_EXCLUDES(mu_) {
    std::optional<Flight> flight;
    {
      MutexLock lock(mu_);
      silent_ticks_ = 0;
      asked_ = false;
      if (frame.kind == CallHeader::kPong) return Work();
      if (frame.kind != CallHeader::kResponse && frame.kind != CallHeader::kError)
        return errors::InvalidArgument("a message of an unknown kind");
      flight = Take(frame.call);
    }
    if (!flight) return Work();  // it was given up
    Status status;
    if (frame.kind == CallHeader::kError) {
      const bool known =
          frame.number > 0 && frame.number <= static_cast<int64_t>(ErrorCode::kUnauthenticated);
      status = Status(known ? static_cast<ErrorCode>(frame.number) : ErrorCode::kUnknown, bytes.ToString());
      bytes = MessageBytes();
    }
    return Work([self = ShareRef(this), of = *std::move(flight), result = std::move(status),
                 response = std::move(bytes)]() mutable {
      self->Answer(std::move(of), std::move(result), std::move(response));
    });
  }

  void OnEnd(const Status& why) override MR_EXCLUDES(mu_) {
    decltype(flights_) flights;
    {
      MutexLock lock(mu_);
      ended_ = true;
      flights.swap(flights_);
      replying_ += static_cast<int>(flights.size());
    }
    for (auto& [number, flight] : flights) {
      Status status = why;
      if (errors::IsDeadlineExceeded(why)) {
        status = errors::Unavailable("Task ", task_, " at ", address_, " ", why.message(), ": ",
                                     MethodName(flight.method), " was abandoned after ",
                                     Seconds(steady_clock::now() - flight.start));
      } else if (!errors::IsCancelled(why)) {
        status = errors::Unavailable("Task ", task_, " at ", address_, ": ", why.message(), " (",
                                     MethodName(flight.method), ")");
      }
      Answer(std::move(flight), std::move(status), {});
    }
  }

  // A step that is cancelled because of its own error answers with that error: it gets time for that.
  void Cancel(uint64_t number) MR_EXCLUDES(mu_) {
    std::optional<Flight> flight;
    {
      MutexLock lock(mu_);
      const auto it = flights_.find(number);
      if (it == flights_.end()) return;
      if (it->second.method == Method::kRunGraph) {
        it->second.cancelled_at = steady_clock::now();
      } else {
        flight = Take(number);
      }
    }
    Send({.kind = CallHeader::kCancel, .call = number});
    if (!flight) return;
    const Method method = flight->method;
    Answer(*std::move(flight), Cancelled(method), {});
  }

  Status Cancelled(Method method) const {
    if (method == Method::kRunGraph) return errors::Cancelled("Step was cancelled");
    return errors::Cancelled(MethodName(method), " at ", task_, " was cancelled");
  }

  void OnTick() override MR_EXCLUDES(mu_) {
    const auto now = steady_clock::now();
    std::vector<std::pair<Flight, Status>> over;
    std::vector<uint64_t> stopped;
    bool asks = false, is_silent = false;
    {
      MutexLock lock(mu_);
      if (ended_ || flights_.empty()) return;
      // Ticks count the time in which this process runs.
      ++silent_ticks_;
      const auto silent = silent_ticks_ * CallLoop::kTick;
      is_silent = silent > patience_;
      asks = !asked_ && silent * 5 >= patience_;
      asked_ = asked_ || asks;
      for (const auto& [number, flight] : flights_) {
        if (IsOver(flight, now)) stopped.push_back(number);
      }
      for (const uint64_t number : stopped) {
        std::optional<Flight> flight = Take(number);
        Status status = flight->cancelled_at ? Cancelled(flight->method)
                                             : errors::DeadlineExceeded(
                                                   MethodName(flight->method), " at ", task_, " (", address_,
                                                   ") has taken more than ", flight->timeout_in_ms, " ms");
        over.emplace_back(*std::move(flight), std::move(status));
      }
    }
    if (asks) Send({.kind = CallHeader::kPing});
    for (const uint64_t number : stopped) Send({.kind = CallHeader::kCancel, .call = number});
    for (auto& [flight, status] : over) Answer(std::move(flight), std::move(status), {});
    if (!is_silent) return;
    End(errors::DeadlineExceeded("has been silent for ", Seconds(patience_)));
  }
  static bool IsOver(const Flight& flight, steady_clock::time_point now) {
    if (flight.cancelled_at) return now - *flight.cancelled_at > kCancelGrace;
    return flight.timeout_in_ms > 0 && now - flight.start > milliseconds(flight.timeout_in_ms);
  }

  const std::string task_;
  const std::string address_;
  const milliseconds patience_;
  mutable Mutex mu_;
  CondVar drained_;
  bool ended_ MR_GUARDED_BY(mu_) = false;
  uint64_t next_number_ MR_GUARDED_BY(mu_) = 1;
  int replying_ MR_GUARDED_BY(mu_) = 0;
  int silent_ticks_ MR_GUARDED_BY(mu_) = 0;
  bool asked_ MR_GUARDED_BY(mu_) = false;
  std::unordered_map<uint64_t, Flight> flights_ MR_GUARDED_BY(mu_);
};

CallTransport::CallTransport(std::shared_ptr<Transport> below, const Options& options)
    : below_(std::move(below)), options_(options) {}

CallTransport::~CallTransport() {
  std::vector<std::pair<std::string, RefPtr<Connection>>> connections;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    for (RefPtr<Connection>& old : old_) connections.emplace_back("", std::move(old));
    for (auto& [task, peer] : peers_) {
      if (peer.connection != nullptr) connections.emplace_back(task, std::move(peer.connection));
    }
  }
  cancellation_.StartCancel();
  for (const auto& [task, connection] : connections)
    connection->End(errors::Cancelled("The connection to ", task, " is closed"));
  for (const auto& [task, connection] : connections) connection->Drain();
  {
    MutexLock lock(mu_);
    while (opening_ > 0) opened_.Wait(mu_);
  }
  threads_.reset();
}

void CallTransport::Start(RemoteCall call, Reply reply) {
  if (IsCarried(call)) {
    const RefPtr<Connection> connection = Find(call.task);
    if (connection != nullptr && connection->Start(call, reply)) return;
  }
  below_->Start(std::move(call), std::move(reply));
}

size_t CallTransport::num_connections() const {
  MutexLock lock(mu_);
  return static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer.second.connection != nullptr && !peer.second.connection->ended();
  }));
}

RefPtr<CallTransport::Connection> CallTransport::Find(const std::string& task) {
  {
    MutexLock lock(mu_);
    const auto it = peers_.find(task);
    if (it != peers_.end() && it->second.connection != nullptr && !it->second.connection->ended())
      return it->second.connection;
    if (stopped_ || (it == peers_.end() && (peers_.size() >= kMostPeers || !options_.peers.contains(task))))
      return nullptr;
    Peer& peer = peers_[task];
    if (peer.connection != nullptr) {
      std::erase_if(old_, [](const auto& old) { return old->drained(); });
      old_.push_back(std::move(peer.connection));
    }
    if (peer.opening || Clock::now() < peer.retry_at) return nullptr;
    peer.opening = true;
    ++opening_;
  }
  Ask(task);
  return nullptr;
}

void CallTransport::Ask(const std::string& task) {
  RemoteCall call{task, Method::kOpenCalls};
  call.timeout_in_ms = options_.patience.count();
  call.cancellation = &cancellation_;
  below_->Start(std::move(call), [this, task](const Status& status, const MessageBytes& bytes) {
    if (!status.ok()) return Opened(task, status);
    UniqueFunction<void()> connect = [this, task, address = bytes.ToString()] { Connect(task, address); };
    if (!threads_->TrySchedule(connect)) Opened(task, NoThreadFor(Method::kOpenCalls));
  });
}

void CallTransport::Connect(const std::string& task, const std::string& address) {
  StatusOr<RefPtr<Connection>> made = TryConnect(task, address);
  // The task can be reached, but its port cannot.
  if (errors::IsUnavailable(made.status())) made = errors::FailedPrecondition(made.status().message());
  Opened(task, std::move(made));
}

StatusOr<RefPtr<CallTransport::Connection>> CallTransport::TryConnect(const std::string& task,
                                                                      const std::string& address) {
  MR_ASSIGN_OR_RETURN(const SocketAddress to, SocketAddress::Parse(address));
  const std::string& known = options_.peers.at(task);
  const milliseconds patience = std::min(kConnectPatience, options_.patience);
  MR_ASSIGN_OR_RETURN(FileDescriptor fd,
                      ConnectWithTcp(known.substr(0, known.rfind(':')), to.port, patience));
  const SocketRequest hello{SocketRequest::kCallsMagic, to.token, 0, 0, 0};
  const std::string_view text(reinterpret_cast<const char*>(&hello), sizeof(hello));
  MR_RETURN_IF_ERROR(WriteAll(fd.get(), text, {}, patience));
  SocketAnswer answer;
  MR_RETURN_IF_ERROR(ReadAll(fd.get(), &answer, sizeof(answer), patience).status);
  if (answer.kind != SocketAnswer::kGranted || answer.num_bytes != 0)
    return errors::Unavailable(task, " did not answer by the protocol of Millrace");
  std::shared_ptr<CallLoop> loop;
  {
    MutexLock lock(mu_);
    if (loop_ == nullptr) loop_ = CallLoop::Get();
    loop = loop_;
  }
  if (loop == nullptr) return errors::ResourceExhausted("Could not start a thread for calls");
  auto connection = MakeRef<Connection>(*loop, std::move(fd), task, known, options_.patience);
  MR_RETURN_IF_ERROR(connection->Open());
  return connection;
}

void CallTransport::Opened(const std::string& task, StatusOr<RefPtr<Connection>> made) {
  if (errors::IsFailedPrecondition(made.status()))
    MR_LOG(Info) << "Calls to " << task << " do not use a socket: " << made.status();
  const bool is_away = errors::IsUnavailable(made.status()) || errors::IsDeadlineExceeded(made.status());
  MutexLock lock(mu_);
  Peer& peer = peers_[task];
  peer.opening = false;
  peer.retry_at = Clock::now() + (is_away ? kRetryAway : options_.retry_after);
  if (made.ok() && stopped_) {
    (*made)->End(errors::Cancelled("The task is shutting down"));
  } else if (made.ok()) {
    peer.retry_at = {};  // when it ends, the next call connects again
    peer.connection = *std::move(made);
  }
  if (--opening_ == 0) opened_.NotifyAll();
}

}  // namespace millrace
