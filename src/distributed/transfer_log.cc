// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/transfer_log.h"

#include <chrono>
#include <utility>

#include "kernel/rendezvous.h"
#include "tensorflow/core/framework/step_stats.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

constexpr double kLongestTrace = 3600;  // seconds

void ToStats(const TransferLog::Transfer& transfer, tensorflow::StepStats* stats) {
  const auto parts = Rendezvous::Key::Parse(transfer.key);
  tensorflow::DeviceStepStats* of_device = nullptr;
  const std::string device = parts.ok() ? parts->src_device : "";
  for (tensorflow::DeviceStepStats& known : *stats->mutable_dev_stats()) {
    if (known.device() == device) of_device = &known;
  }
  if (of_device == nullptr) {
    of_device = stats->add_dev_stats();
    of_device->set_device(device);
  }
  tensorflow::NodeExecStats* const node = of_device->add_node_stats();
  node->set_node_name("RecvTensor");
  if (parts.ok()) {
    node->set_timeline_label(StrCat("[", transfer.bytes, "B] ", parts->tensor_name, " from ",
                                    parts->src_device, " to ", parts->dst_device));
  }
  node->set_scheduled_micros(transfer.start_us);
  node->set_all_start_micros(transfer.start_us);
  node->set_op_end_rel_micros(transfer.end_us - transfer.start_us);
  node->set_all_end_rel_micros(transfer.end_us - transfer.start_us);
  auto* const memory = node->add_output()->mutable_tensor_description()->mutable_allocation_description();
  memory->set_requested_bytes(transfer.bytes);
}

}  // namespace

bool TransferLog::enabled() const {
  MutexLock lock(mu_);
  return enabled_;
}

void TransferLog::Add(Transfer transfer) {
  MutexLock lock(mu_);
  if (!enabled_) return;
  transfers_.push_back(std::move(transfer));
  if (transfers_.size() > kMost) transfers_.pop_front();
}

int64_t TransferLog::NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void TransferLog::AddStep(int64_t step_id, tensorflow::StepStats stats) {
  auto kept = std::make_shared<const tensorflow::StepStats>(std::move(stats));
  MutexLock lock(mu_);
  steps_.emplace_back(step_id, std::move(kept));
  if (steps_.size() > kMostSteps) steps_.pop_front();
}

Status TransferLog::Trace(const tensorflow::TraceOpts& options) {
  if (options.use_extended_profiler() || options.use_gpu_profiler() || options.use_sample_profiler()) {
    return errors::Unimplemented("Tracing with ", options.use_extended_profiler() ? "use_extended_profiler"
                                                  : options.use_gpu_profiler()    ? "use_gpu_profiler"
                                                                                  : "use_sample_profiler");
  }
  if (!(options.duration() >= 0 && options.duration() <= kLongestTrace))
    return errors::InvalidArgument("Tracing for ", options.duration(), " s");
  const auto duration_us = static_cast<int64_t>(options.duration() * 1e6);
  until_us_.store(NowUs() + duration_us, std::memory_order_relaxed);
  return Status();
}

void TransferLog::Handle(const tensorflow::LoggingRequest& request, tensorflow::LoggingResponse* response) {
  MutexLock lock(mu_);
  if (request.enable_rpc_logging()) enabled_ = true;
  if (request.disable_rpc_logging()) enabled_ = false;
  for (const int64_t step_id : request.fetch_step_id()) {
    tensorflow::LabeledStepStats* const step = response->add_step();
    step->set_step_id(step_id);
    for (const Transfer& transfer : transfers_) {
      if (transfer.step_id == step_id) ToStats(transfer, step->mutable_step_stats());
    }
    for (const auto& [id, stats] : steps_) {
      if (id == step_id) step->mutable_step_stats()->MergeFrom(*stats);
    }
  }
  if (request.clear()) {
    transfers_.clear();
    steps_.clear();
  }
}

}  // namespace millrace
