// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/logging.h"
#include "base/mutex.h"
#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/replicas.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kNoOwner = -1;

// The variable that holds the lease: the index of the owner, and the number of renewals.
struct LeaseGraph {
  explicit LeaseGraph(const std::string& device) {
    const Scope at = scope.WithDevice(device);
    const PartialShape pair(std::vector<int64_t>{2});
    const Output handle =
        ops::VarHandleOp(at, DataType::kInt64, pair, ops::VarHandleOp::SharedName("millrace_chief_lease"));
    written = ops::Placeholder(at, DataType::kInt64, ops::Placeholder::Shape(pair));
    write = ops::AssignVariableOp(at, handle, written);
    value = ops::ReadVariableOp(at, handle, DataType::kInt64);
  }
  Scope scope = Scope::NewRootScope();
  Output written, value;
  Operation write;
};

struct Lease {
  int64_t owner = kNoOwner;
  int64_t renewals = 0;
  bool operator==(const Lease&) const = default;
};

class VariableLease final : public ChiefLease {
 public:
  VariableLease(const Options& options, LeaseGraph graph)
      : options_(options), graph_(std::move(graph)), thread_([this] { Loop(); }) {}
  ~VariableLease() override {
    {
      MutexLock lock(mu_);
      ending_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }
  bool IsChief() const override {
    MutexLock lock(mu_);
    return is_chief_ && Clock::now() - renewed_ < Length(1);
  }

 private:
  Clock::duration Length(double leases) const {
    constexpr double kLongest = 365.0 * 24 * 3600;
    return std::chrono::duration_cast<Clock::duration>(
        Seconds(leases * std::min(options_.lease_secs, kLongest)));
  }

  void Loop() {
    while (true) {
      if (const Status status = Look(); !status.ok()) {
        MR_LOG(Info) << "The chief's lease cannot be reached: " << status;
        session_ = nullptr;
      }
      MutexLock lock(mu_);
      const auto next = Clock::now() + Length(0.2);
      while (!ending_ && changed_.WaitUntil(mu_, next)) {
      }
      if (ending_) return;
    }
  }

  // Renews the lease, or claims a free one. A claim is valid if it is still there at the next check.
  Status Look() {
    if (session_ == nullptr) {
      SessionOptions session = options_.session;
      if (session.operation_timeout_in_ms == 0)
        session.operation_timeout_in_ms = static_cast<int64_t>(1000 * options_.lease_secs) + 1;
      session_ = std::make_unique<ClientSession>(graph_.scope, session);
    }
    const auto now = Clock::now();  // a renewal counts from before it is written
    MR_ASSIGN_OR_RETURN(const Lease seen, Read());
    if (!last_.has_value() || !(*last_ == seen)) {
      last_ = seen;
      last_change_ = now;
    }
    const bool mine = seen.owner == options_.task;
    {
      MutexLock lock(mu_);
      if (is_chief_ != mine)
        MR_LOG(Info) << "Worker " << options_.task << (mine ? " is the chief" : " is not the chief any more");
      is_chief_ = mine;
    }
    if (seen.owner != kNoOwner) {
      had_owner_ = true;
      was_chief_ = mine;
    }
    if (!mine && now - last_change_ < Patience(seen)) return Status();
    const Tensor claim = Tensor::Vector(std::vector<int64_t>{options_.task, seen.renewals + 1});
    MR_RETURN_IF_ERROR(session_->Run({{graph_.written, Literal(claim)}}, {}, {graph_.write}, nullptr));
    MutexLock lock(mu_);
    renewed_ = now;
    return Status();
  }

  // The time that this worker waits before it claims a lease that is not renewed.
  Clock::duration Patience(const Lease& seen) const {
    const double place = 0.5 * options_.task;
    if (seen.owner != kNoOwner) return Length(1 + place);
    // The parameter server is new: the previous chief claims the lease at once.
    if (was_chief_) return Length(0);
    return Length(had_owner_ ? 0.5 + place : place);
  }

  StatusOr<Lease> Read() {
    std::vector<Tensor> out;
    const Status status = session_->Run({graph_.value}, &out);
    if (errors::IsFailedPrecondition(status) || errors::IsNotFound(status)) return Lease();
    MR_RETURN_IF_ERROR(status);
    const auto values = out[0].flat<int64_t>();
    return Lease{values[0], values[1]};
  }

  const Options options_;
  const LeaseGraph graph_;
  // Of the thread:
  std::unique_ptr<ClientSession> session_;
  std::optional<Lease> last_;
  Clock::time_point last_change_;
  bool had_owner_ = false;
  bool was_chief_ = false;  // at the last check with an owner

  mutable Mutex mu_;
  CondVar changed_;
  bool ending_ MR_GUARDED_BY(mu_) = false;
  bool is_chief_ MR_GUARDED_BY(mu_) = false;
  Clock::time_point renewed_ MR_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace

StatusOr<std::shared_ptr<ChiefLease>> ChiefLease::Make(const Options& options) {
  if (!(options.lease_secs > 0) || options.task < 0) {
    return errors::InvalidArgument("There is no lease of ", options.lease_secs, " s for worker ",
                                   options.task);
  }
  LeaseGraph graph(options.device);
  MR_RETURN_IF_ERROR(graph.scope.status());
  return std::shared_ptr<ChiefLease>(std::make_shared<VariableLease>(options, std::move(graph)));
}

}  // namespace millrace
