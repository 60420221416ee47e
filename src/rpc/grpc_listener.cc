// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "rpc/grpc_listener.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/async_unary_call.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/strings.h"
#include "distributed/reflection.h"
#include "rpc/event_order.h"
#include "rpc/grpc_buffer.h"
#include "rpc/grpc_options.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// Threads that accept calls; the work is done elsewhere, or is short.
constexpr int kThreads = 2;
// Calls of a method that may arrive at the same time before a thread looks.
constexpr int kAcceptors = 4;

// All methods under their names, with bytes for messages.
class Methods : public grpc::Service {
 public:
  Methods() {
    for (int i = 0; i < kNumMethods; ++i) {
      paths_.push_back(MethodPath(static_cast<Method>(i)));
    }
    for (int i = 0; i < kNumMethods; ++i) {
      AddMethod(new grpc::internal::RpcServiceMethod(paths_[static_cast<size_t>(i)].c_str(),
                                                     grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
      MarkMethodAsync(i);
    }
  }
  void Accept(Method method, grpc::ServerContext* context, grpc::ByteBuffer* request,
              grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer, grpc::ServerCompletionQueue* queue,
              void* tag) {
    RequestAsyncUnary(static_cast<int>(method), context, request, writer, queue, queue, tag);
  }

 private:
  std::vector<std::string> paths_;
};

// Serves reflection to tools, if `admits` allows the caller.
class ReflectionService : public grpc::Service {
 public:
  using Admits = std::function<bool(const grpc::ServerContextBase& context)>;
  ReflectionService(const char* path, Admits admits) : admits_(std::move(admits)) {
    AddMethod(new grpc::internal::RpcServiceMethod(path, grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodCallback(
        0, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
               [this](grpc::CallbackServerContext* context) { return new Conversation(admits_(*context)); }));
  }

 private:
  // One stream of requests: deletes itself.
  class Conversation : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Conversation(bool is_admitted) {
      order_.BeforeStart();
      if (is_admitted) {
        StartRead(&request_);
        return;
      }
      Finish(ToGrpc(
          errors::Unauthenticated("ServerReflectionInfo was called without the token of the cluster")));
    }
    void OnReadDone(bool ok) override {
      order_.AtEvent();
      if (!ok) return Finish(grpc::Status::OK);
      const StatusOr<MessageBytes> request = FromGrpc(request_);
      if (!request.ok()) return Finish(ToGrpc(request.status()));
      response_ = ToGrpc(MessageBytes(AnswerReflection(request->ToString())));
      order_.BeforeStart();
      StartWrite(&response_);
    }
    void OnWriteDone(bool ok) override {
      order_.AtEvent();
      if (!ok) return Finish(grpc::Status::OK);
      request_.Clear();
      order_.BeforeStart();
      StartRead(&request_);
    }
    void OnDone() override {
      order_.AtEvent();
      delete this;
    }

   private:
    EventOrder order_;
    grpc::ByteBuffer request_, response_;
  };

  const Admits admits_;
};

class GrpcListener : public Listener {
 public:
  ~GrpcListener() override { Stop(0); }

  Status Bind(const std::string& address, const ChannelSecurity& security) {
    token_ = security.token;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, ServerCredentialsOf(security), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    SetServerArguments(&builder);
    builder.RegisterService(&methods_);
    builder.RegisterService(&reflection_);
    builder.RegisterService(&alpha_reflection_);
    for (int i = 0; i < kThreads; ++i) queues_.push_back(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ > 0) return Status();
    if (server_ != nullptr) StopServer(0);
    for (const auto& queue : queues_) DrainQueue(*queue);
    queues_.clear();
    server_.reset();
    return errors::Unavailable("Could not start gRPC server: the address ", address,
                               " is in use, or none of this machine",
                               security.encrypts() ? ", or its certificate and key don't fit" : "");
  }

  int port() const override { return port_; }

  void Start(CallHandler handler) override {
    handler_ = std::move(handler);
    if (auto* const health = server_->GetHealthCheckService(); health != nullptr)
      health->SetServingStatus(true);
    for (const auto& queue : queues_) {
      for (int method = 0; method < kNumMethods; ++method) {
        for (int i = 0; i < kAcceptors; ++i) Accept(static_cast<Method>(method), *queue);
      }
      threads_.emplace_back([q = queue.get()] { Loop(*q); });
    }
  }

  void Stop(int64_t grace_in_ms) override {
    if (server_ == nullptr) return;
    {
      MutexLock lock(mu_);
      stopping_ = true;
    }
    StopServer(grace_in_ms);
    {
      // A reply must not find its queue closed.
      MutexLock lock(mu_);
      while (in_progress_ > 0) idle_.Wait(mu_);
    }
    for (const auto& queue : queues_) {
      if (threads_.empty()) {
        DrainQueue(*queue);
      } else {
        queue->Shutdown();
      }
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    server_.reset();
    queues_.clear();
  }

 private:
  // One call: waits to be taken, is handled, answered and then known to be done. Two events end its lifetime;
  // a cancellation by its number holds a reference meanwhile.
  class Call {
   public:
    struct Event {
      Call* call;
      void (Call::*handle)(bool ok);
    };
    static void HandleTag(void* tag, bool ok) {
      const auto* const event = static_cast<Event*>(tag);
      event->call->order_.AtEvent();
      (event->call->*event->handle)(ok);
    }

    Call(GrpcListener& listener, Method method, grpc::ServerCompletionQueue& queue)
        : listener_(listener), method_(method), queue_(queue) {
      order_.BeforeStart();
      context_.AsyncNotifyWhenDone(&done_);
      listener_.methods_.Accept(method, &context_, &request_, &writer_, &queue, &accepted_);
    }

    // While it has a name, from any thread.
    void Hold() { pending_.fetch_add(1, std::memory_order_relaxed); }
    void CancelAndRelease() {
      cancellation_.StartCancel();
      Ended();
    }

   private:
    void Accepted(bool ok) {
      if (!ok || !listener_.Take(method_, queue_)) {
        if (!ok) {
          delete this;
          return;
        }
        pending_.store(2);
        Finish(errors::Unavailable("The server is stopping"), {});
        return;
      }
      counted_ = true;
      if (!listener_.Admits(context_)) {
        return Finish(errors::Unauthenticated(MethodName(method_),
                                              " was called without the token of the cluster of this task"),
                      {});
      }
      StatusOr<MessageBytes> request = FromGrpc(request_);
      if (!request.ok()) return Finish(request.status(), {});
      if (method_ == Method::kCancelCall) return Finish(listener_.CancelCall(request->ToString()), {});
      const auto& headers = context_.client_metadata();
      if (const auto number = headers.find(kCallNumber); number != headers.end()) {
        number_.assign(number->second.data(), number->second.size());
        listener_.Name(number_, this);
      }
      listener_.handler_(method_, *std::move(request), TimeLeft(), cancellation_,
                         [this](const Status& status, const MessageBytes& bytes) { Finish(status, bytes); });
    }
    int64_t TimeLeft() const {
      const auto deadline = context_.deadline();
      if (deadline == system_clock::time_point::max()) return 0;
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - system_clock::now()).count();
      // The longest accepted timeout; a call without a deadline may arrive with a very late one.
      constexpr int64_t kLongest = int64_t{10} * 365 * 24 * 3600 * 1000;
      return left > kLongest ? 0 : std::max<int64_t>(left, 1);
    }
    void Finish(const Status& status, const MessageBytes& bytes) {
      if (!number_.empty()) listener_.Unname(number_);
      order_.BeforeStart();
      if (status.ok()) {
        writer_.Finish(ToGrpc(bytes), grpc::Status::OK, &sent_);
      } else {
        // So that the caller can distinguish an error of the task from one of the connection.
        context_.AddTrailingMetadata(kErrorMark, "1");
        writer_.FinishWithError(ToGrpc(status), &sent_);
      }
    }
    void Sent(bool /*ok*/) { Ended(); }
    void Done(bool /*ok*/) {
      if (context_.IsCancelled()) cancellation_.StartCancel();
      Ended();
    }
    void Ended() {
      // Acquire and release: the last one sees the writes of the other.
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      GrpcListener& listener = listener_;
      const bool counted = counted_;
      delete this;
      if (counted) listener.CallEnded();
    }

    GrpcListener& listener_;
    const Method method_;
    grpc::ServerCompletionQueue& queue_;
    grpc::ServerContext context_;
    grpc::ByteBuffer request_;
    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_{&context_};
    CancellationManager cancellation_;
    EventOrder order_;
    bool counted_ = false;
    std::string number_;  // by which the caller may cancel it; empty: none
    std::atomic<int> pending_{2};
    Event accepted_{this, &Call::Accepted};
    Event sent_{this, &Call::Sent};
    Event done_{this, &Call::Done};
  };

  void Accept(Method method, grpc::ServerCompletionQueue& queue) { new Call(*this, method, queue); }

  // Whether the caller has shown the token, if there is one.
  bool Admits(const grpc::ServerContextBase& context) const {
    if (token_.empty()) return true;
    const auto& headers = context.client_metadata();
    const auto shown = headers.find(kTokenHeader);
    if (shown == headers.end()) return false;
    std::string_view value(shown->second.data(), shown->second.size());
    return ConsumePrefix(&value, kTokenPrefix) && SameSecret(token_, value);
  }

  // Counts a received call, and waits for the next one.
  bool Take(Method method, grpc::ServerCompletionQueue& queue) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (stopping_) return false;
    ++in_progress_;
    Accept(method, queue);
    return true;
  }
  void Name(const std::string& number, Call* call) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    named_.emplace(number, call);
  }
  void Unname(const std::string& number) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    named_.erase(number);
  }
  Status CancelCall(const std::string& number) MR_EXCLUDES(mu_) {
    Call* call = nullptr;
    {
      MutexLock lock(mu_);
      const auto it = named_.find(number);
      if (it == named_.end()) return errors::NotFound("No call has the number ", number);
      call = it->second;
      call->Hold();
    }
    call->CancelAndRelease();
    return Status();
  }
  void CallEnded() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (--in_progress_ == 0) idle_.NotifyAll();
  }

  static void Loop(grpc::ServerCompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) Call::HandleTag(tag, ok);
  }
  static void DrainQueue(grpc::ServerCompletionQueue& queue) {
    queue.Shutdown();
    Loop(queue);
  }
  void StopServer(int64_t grace_in_ms) { server_->Shutdown(system_clock::now() + milliseconds(grace_in_ms)); }

  Methods methods_;
  ReflectionService reflection_{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                                [this](const auto& context) { return Admits(context); }};
  ReflectionService alpha_reflection_{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                      [this](const auto& context) { return Admits(context); }};
  int port_ = 0;
  std::string token_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  CallHandler handler_;
  std::vector<std::thread> threads_;
  Mutex mu_;
  CondVar idle_;
  bool stopping_ MR_GUARDED_BY(mu_) = false;
  int64_t in_progress_ MR_GUARDED_BY(mu_) = 0;
  std::unordered_map<std::string, Call*> named_ MR_GUARDED_BY(mu_);
};

}  // namespace

StatusOr<std::unique_ptr<Listener>> ListenWithGrpc(const std::string& address,
                                                   const ChannelSecurity& security) {
  MR_RETURN_IF_ERROR(UseGrpc());
  auto listener = std::make_unique<GrpcListener>();
  MR_RETURN_IF_ERROR(listener->Bind(address, security));
  return std::unique_ptr<Listener>(std::move(listener));
}

}  // namespace millrace
