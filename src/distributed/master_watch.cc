// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/master_watch.h"

#include <algorithm>
#include <set>

#include "base/logging.h"
#include "base/strings.h"
#include "distributed/remote_worker.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kCompareEvery{1};

}  // namespace

MasterWatch::MasterWatch(WorkerService& worker, Transport& transport, int64_t patience_in_ms)
    : worker_(worker), transport_(transport), patience_(patience_in_ms), thread_([this] { Loop(); }) {}

MasterWatch::~MasterWatch() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  transport_.Drain();
}

void MasterWatch::Loop() {
  const auto every = std::clamp<std::chrono::milliseconds>(patience_ / 3, std::chrono::milliseconds(50),
                                                           std::chrono::milliseconds(2000));
  auto last = Clock::now();
  while (true) {
    {
      MutexLock lock(mu_);
      const auto next = Clock::now() + every;
      while (!ending_ && changed_.WaitUntil(mu_, next)) {
      }
      if (ending_) return;
    }
    const std::set<WorkerService::MasterOf> masters = worker_.Masters();
    const auto now = Clock::now();
    std::vector<WorkerService::MasterOf> ask, gone;
    {
      MutexLock lock(mu_);
      // A process that was stopped itself has received nothing.
      if (now - last > 3 * every) {
        for (auto& [master, seen] : seen_) seen.when = now;
      }
      last = now;
      std::erase_if(seen_,
                    [&](const auto& entry) { return !entry.second.asked && !masters.contains(entry.first); });
      for (const WorkerService::MasterOf& master : masters) {
        Seen& seen = seen_.try_emplace(master, Seen{now}).first->second;
        if (now - seen.when > patience_) gone.push_back(master);
        if (!seen.asked) ask.push_back(master);
        seen.asked = true;
      }
    }
    for (const WorkerService::MasterOf& master : gone) {
      const std::string reason = StrCat("it has not answered for ", patience_.count(), " ms");
      MR_LOG(Warning) << "The sessions of " << master.task << " are dropped: " << reason;
      worker_.DropSessionsOf(master, reason);
    }
    for (const WorkerService::MasterOf& master : ask) Ask(master);
    worker_.collectives().WatchTakers();
  }
}

void MasterWatch::Ask(const WorkerService::MasterOf& master) {
  RemoteCall call{master.task, Method::kGetStatus, MessageBytes::Of(tensorflow::GetStatusRequest())};
  call.timeout_in_ms = std::max<int64_t>(patience_.count(), 100);
  call.patience_in_ms = call.timeout_in_ms;  // it may just have become reachable again
  transport_.Start(std::move(call), [this, master](const Status& status, const MessageBytes& bytes) {
    Answered(master, status, bytes);
  });
}

void MasterWatch::Answered(const WorkerService::MasterOf& master, const Status& status,
                           const MessageBytes& bytes) {
  bool other = false;
  bool same = false;
  if (status.ok()) {
    const auto devices = DevicesFromStatus(master.task, bytes);
    if (devices.ok()) {
      same = std::any_of(devices->begin(), devices->end(), [&](const DeviceAttributes& device) {
        return static_cast<int64_t>(device.incarnation) == master.incarnation;
      });
      other = !same;
    }
  }
  bool compare = false;
  {
    MutexLock lock(mu_);
    const auto it = seen_.find(master);
    if (it != seen_.end()) {
      it->second.asked = false;
      const auto now = Clock::now();
      if (same) it->second.when = now;
      compare = same && !ending_ && now - it->second.compared > kCompareEvery;
      if (compare) it->second.compared = now;
    }
  }
  if (compare) CompareSessions(master);
  if (!other) return;
  MR_LOG(Warning) << "The sessions of " << master.task << " are dropped: it has restarted";
  worker_.DropSessionsOf(master, "it has restarted");
}

void MasterWatch::CompareSessions(const WorkerService::MasterOf& master) {
  // The master created each of them before it gets the request.
  std::set<std::string> here = worker_.SessionsOf(master);
  RemoteCall call{master.task, Method::kDescribe, MessageBytes(std::string(kSessionsQuestion))};
  call.timeout_in_ms = std::max<int64_t>(patience_.count(), 100);
  transport_.Start(std::move(call), [this, master, gone = std::move(here)](
                                        const Status& status, const MessageBytes& bytes) mutable {
    if (!status.ok()) return;  // it is not a task of Millrace, or will be called again
    const std::string known = bytes.ToString();
    for (const std::string_view handle : StrSplitSkipEmpty(known, '\n')) gone.erase(std::string(handle));
    if (gone.empty()) return;
    MR_LOG(Warning) << gone.size() << " sessions of " << master.task << " are dropped: it has closed them";
    worker_.DropSessionsOf(master, "", &gone);
  });
}

}  // namespace millrace
