// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/bfc_allocator.h"
#include "device/device.h"
#include "device/stream.h"

namespace millrace {

// Memory with two addresses: at the address in tensors it can be neither read nor written, so code that
// treats it as host memory faults; the device uses the other one. Thread-safe.
class ProtectedMemory final : public Allocator {
 public:
  ProtectedMemory(size_t bytes, MemorySpace* space);
  ~ProtectedMemory() override;
  std::string_view name() const override { return "protected"; }
  void* Allocate(size_t bytes) override MR_EXCLUDES(mu_);
  void Deallocate(void* p, size_t bytes) override MR_EXCLUDES(mu_);
  bool Contains(const void* p) const { return p >= base_ && static_cast<const char*>(p) < base_ + bytes_; }
  // The device's address of the memory at `p`. REQUIRES: Contains(p).
  void* Open(const void* p) const { return shadow_ + (static_cast<const char*>(p) - base_); }

 private:
  const size_t bytes_;
  char* base_ = nullptr;
  char* shadow_ = nullptr;
  Mutex mu_;
  std::vector<std::pair<size_t, size_t>> free_ MR_GUARDED_BY(mu_);  // offsets and sizes, by offset
};

// Work on a thread of its own, executed as late as possible: not before a thread waits for a later event, or
// a few dozen pieces are queued. Thread-safe.
class FakeStream final : public Stream {
 public:
  using Work = UniqueFunction<Status()>;

  FakeStream();
  // Executes the remaining work.
  ~FakeStream() override;
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  // A failure breaks the stream: no later work is executed.
  void Launch(Work work) MR_EXCLUDES(mu_);
  RefPtr<Event> Record() override MR_EXCLUDES(mu_);
  void WaitFor(RefPtr<Event> event) override MR_EXCLUDES(mu_);

  // For tests: no work is executed between the two.
  void Pause() MR_EXCLUDES(mu_);
  void Resume() MR_EXCLUDES(mu_);
  int64_t num_done() const { return num_done_.load(std::memory_order_relaxed); }
  bool OnItsThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  class FakeEvent;
  struct Item {
    Work work;                // or:
    RefPtr<FakeEvent> event;  // to be reached, or:
    RefPtr<Event> wait_for;   // before anything else is done
  };

  uint64_t Put(Item item) MR_EXCLUDES(mu_);
  void DoUntil(uint64_t number) MR_EXCLUDES(mu_);
  void Run() MR_EXCLUDES(mu_);
  Status Do(Item& item) MR_EXCLUDES(mu_);

  static constexpr size_t kMostWaiting = 40;

  Mutex mu_;
  CondVar changed_;
  std::deque<Item> items_ MR_GUARDED_BY(mu_);
  uint64_t first_ MR_GUARDED_BY(mu_) = 0;   // the number of items_.front()
  uint64_t wanted_ MR_GUARDED_BY(mu_) = 0;  // items below are to be done
  bool paused_ MR_GUARDED_BY(mu_) = false;
  bool ends_ MR_GUARDED_BY(mu_) = false;
  Status status_;  // of the thread
  std::atomic<int64_t> num_done_{0};
  std::thread thread_;
};

// A device for tests, of type "FAKE": protected memory, and a stream that executes work late. Devices of this
// type copy from each other.
class FakeDevice final : public Device {
 public:
  static constexpr const char* kType = "FAKE";
  static constexpr size_t kMemoryBytes = size_t{1} << 30;  // addresses; pages are taken when they are written

  explicit FakeDevice(DeviceAttributes attributes);
  ~FakeDevice() override;
  // The existing ones of the process, by age.
  static std::vector<FakeDevice*> All();

  Allocator& allocator() override { return allocator_; }
  Stream* stream() override { return &stream_; }
  void CopyToHost(const Tensor& from, const Tensor& to, CopyDone done) override;
  Status CopyFromHost(const Tensor& from, const Tensor& to) override;
  Status CopyFromDevice(Device& source, const Tensor& from, const Tensor& to) override;
  bool CanCopyFrom(const Device& source) const override { return source.type() == kType; }

  FakeStream& work() { return stream_; }
  // For work in a stream: the elements of a tensor in the memory of this device.
  void* Open(const void* data) const;
  int64_t num_copies_to_host() const { return to_host_.load(std::memory_order_relaxed); }
  int64_t num_copies_from_host() const { return from_host_.load(std::memory_order_relaxed); }
  int64_t num_copies_from_devices() const { return from_devices_.load(std::memory_order_relaxed); }

 private:
  ProtectedMemory memory_;
  BfcAllocator allocator_;
  std::atomic<int64_t> to_host_{0}, from_host_{0}, from_devices_{0};
  FakeStream stream_;  // destroyed first: its work uses the memory
};

// Creates as many as device_count says, none by default. By default nodes are placed on CPUs instead.
Status RegisterFakeDeviceFactory(DeviceFactoryRegistry& registry);

}  // namespace millrace
