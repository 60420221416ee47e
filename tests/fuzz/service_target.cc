// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/logging.h"
#include "base/notification.h"
#include "base/strings.h"
#include "distributed/in_process_transport.h"
#include "distributed/task.h"
#include "tensorflow/core/protobuf/master.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/service_calls.h"

namespace millrace {
namespace {

constexpr size_t kMostCalls = 24;
// Calls that wait in vain are cancelled after the first time, and must answer within the second.
constexpr std::chrono::milliseconds kPatience{20};
constexpr std::chrono::seconds kAnswerWithin{30};

// A task without peers that answers calls one after the other.
class Callee {
 public:
  Callee() {
    ServerOptions options;
    options.cluster = *ClusterSpec::Parse("w=localhost:1");
    options.job = "w";
    options.denied_ops = {"file_access", "network", "callback", "Abort"};
    options.session_creation_timeout_in_ms = 100;
    auto made = Task::Make(options, std::make_shared<InProcessTransport>(InProcessTransportOptions{}));
    if (!made.ok()) Fail(made.status().ToString());
    task_ = *std::move(made);
  }
  void Call(const ServiceCall& call) {
    std::string request = call.request;
    Replace(kAnySession, session_, &request);
    CancellationManager cancellation;
    Notification answered;
    std::string response;
    task_->Handle(call.method, MessageBytes(std::move(request)), 0, cancellation,
                  [&](const Status& status, const MessageBytes& bytes) {
                    if (status.ok()) response = bytes.ToString();
                    answered.Notify();
                  });
    const auto now = std::chrono::steady_clock::now();
    if (!answered.WaitUntil(now + kPatience)) cancellation.StartCancel();
    if (!answered.WaitUntil(now + kAnswerWithin)) Fail(StrCat(MethodName(call.method), " has no answer"));
    tensorflow::CreateSessionResponse session;
    if (call.method == Method::kCreateSession && session.ParseFromString(response) &&
        session.session_handle().size() == session_.size()) {
      session_ = session.session_handle();
    }
  }

 private:
  [[noreturn]] static void Fail(const std::string& what) {
    MR_LOG(Error) << "fuzzing: " << what;
    std::abort();
  }
  // Strings of equal length, so that the request stays a valid message.
  static void Replace(std::string_view from, std::string_view to, std::string* text) {
    for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
      text->replace(at, from.size(), to);
  }

  std::shared_ptr<Task> task_;
  std::string session_ = kAnySession;
};

}  // namespace

std::vector<ServiceCall> ReadServiceCalls(std::string_view bytes) {
  std::vector<ServiceCall> calls;
  while (bytes.size() >= 3 && calls.size() < kMostCalls) {
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
    const size_t size = std::min(byte(1) + 256 * byte(2), bytes.size() - 3);
    calls.push_back({static_cast<Method>(byte(0) % static_cast<size_t>(kNumMethods)),
                     std::string(bytes.substr(3, size))});
    bytes.remove_prefix(3 + size);
  }
  return calls;
}

std::string WriteServiceCalls(const std::vector<ServiceCall>& calls) {
  std::string bytes;
  for (const ServiceCall& call : calls) {
    const size_t size = std::min<size_t>(call.request.size(), 0xffff);
    bytes += static_cast<char>(call.method);
    bytes += static_cast<char>(size & 0xff);
    bytes += static_cast<char>(size >> 8);
    bytes.append(call.request, 0, size);
  }
  return bytes;
}

void FuzzService(std::string_view bytes) {
  PrepareFuzzing();
  Callee callee;
  for (const ServiceCall& call : ReadServiceCalls(bytes)) callee.Call(call);
}

}  // namespace millrace
