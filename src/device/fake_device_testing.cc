// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/fake_device_testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/logging.h"
#include "device/copy.h"

namespace millrace {

ProtectedMemory::ProtectedMemory(size_t bytes, MemorySpace* space) : Allocator(space), bytes_(bytes) {
  const int file = memfd_create("fake_device", MFD_CLOEXEC);
  MR_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0);
  void* const base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* const shadow = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  MR_CHECK(base != MAP_FAILED && shadow != MAP_FAILED);
  close(file);
  base_ = static_cast<char*>(base);
  shadow_ = static_cast<char*>(shadow);
  MutexLock lock(mu_);
  free_.emplace_back(0, bytes);
}

ProtectedMemory::~ProtectedMemory() {
  munmap(base_, bytes_);
  munmap(shadow_, bytes_);
}

void* ProtectedMemory::Allocate(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  MutexLock lock(mu_);
  for (auto& [offset, size] : free_) {
    if (size < rounded) continue;
    size -= rounded;
    return base_ + offset + size;
  }
  return nullptr;
}

void ProtectedMemory::Deallocate(void* p, size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  const auto offset = static_cast<size_t>(static_cast<char*>(p) - base_);
  MutexLock lock(mu_);
  const auto after = std::upper_bound(free_.begin(), free_.end(), std::pair(offset, size_t{0}));
  free_.insert(after, {offset, rounded});
}

class FakeStream::FakeEvent final : public Event {
 public:
  explicit FakeEvent(FakeStream& stream) : stream_(stream) {}
  void set_number(uint64_t number) { number_ = number; }

  void Then(Callback callback) override {
    bool reached;
    {
      MutexLock lock(mu_);
      reached = reached_;
      if (!reached) {
        callbacks_.push_back(std::move(callback));
        // With the lock held: the callback may be what the end of the stream waits for.
        stream_.DoUntil(number_);
      }
    }
    if (reached) callback(status_);
  }
  int64_t TimeNs() const override {
    MutexLock lock(mu_);
    return time_ns_;
  }
  void Reach(const Status& status) {
    std::vector<Callback> callbacks;
    {
      MutexLock lock(mu_);
      status_ = status;
      time_ns_ = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
      reached_ = true;
      callbacks.swap(callbacks_);
    }
    for (Callback& callback : callbacks) callback(status);
  }

 private:
  FakeStream& stream_;
  uint64_t number_ = 0;
  mutable Mutex mu_;
  bool reached_ MR_GUARDED_BY(mu_) = false;
  Status status_;  // does not change once the event is reached
  int64_t time_ns_ MR_GUARDED_BY(mu_) = 0;
  std::vector<Callback> callbacks_ MR_GUARDED_BY(mu_);
};

FakeStream::FakeStream() : thread_([this] { Run(); }) {}

FakeStream::~FakeStream() {
  {
    MutexLock lock(mu_);
    ends_ = true;
    paused_ = false;
    changed_.NotifyAll();
  }
  thread_.join();
}

uint64_t FakeStream::Put(Item item) {
  MutexLock lock(mu_);
  items_.push_back(std::move(item));
  if (items_.size() >= kMostWaiting) {
    wanted_ = first_ + items_.size();
    changed_.NotifyAll();
  }
  return first_ + items_.size() - 1;
}

void FakeStream::Launch(Work work) { Put({.work = std::move(work), .event = nullptr, .wait_for = nullptr}); }

RefPtr<Event> FakeStream::Record() {
  RefPtr<FakeEvent> event = MakeRef<FakeEvent>(*this);
  MutexLock lock(mu_);
  event->set_number(first_ + items_.size());
  items_.push_back({.work = nullptr, .event = event, .wait_for = nullptr});
  return event;
}

void FakeStream::WaitFor(RefPtr<Event> event) {
  Put({.work = nullptr, .event = nullptr, .wait_for = std::move(event)});
}

void FakeStream::DoUntil(uint64_t number) {
  MutexLock lock(mu_);
  wanted_ = std::max(wanted_, number + 1);
  changed_.NotifyAll();
}

void FakeStream::Pause() {
  MutexLock lock(mu_);
  paused_ = true;
}

void FakeStream::Resume() {
  MutexLock lock(mu_);
  paused_ = false;
  changed_.NotifyAll();
}

void FakeStream::Run() {
  while (true) {
    Item item;
    {
      MutexLock lock(mu_);
      while (paused_ || items_.empty() || (first_ >= wanted_ && !ends_)) {
        if (ends_ && items_.empty()) return;
        changed_.Wait(mu_);
      }
      item = std::move(items_.front());
      items_.pop_front();
      ++first_;
    }
    const Status status = Do(item);
    if (status_.ok()) status_ = status;
  }
}

Status FakeStream::Do(Item& item) {
  if (item.event != nullptr) {
    item.event->Reach(status_);
    return Status();
  }
  if (item.wait_for != nullptr) return item.wait_for->Wait();
  if (!status_.ok()) return status_;
  num_done_.fetch_add(1, std::memory_order_relaxed);
  return item.work();
}

namespace {

struct LiveDevices {
  Mutex mu;
  std::vector<FakeDevice*> devices MR_GUARDED_BY(mu);
};

LiveDevices& Live() {
  static auto* const live = new LiveDevices;
  return *live;
}

}  // namespace

FakeDevice::FakeDevice(DeviceAttributes attributes)
    : Device(std::move(attributes)),
      memory_(kMemoryBytes, this),
      allocator_(memory_, {.name = "fake_bfc", .limit_bytes = static_cast<int64_t>(kMemoryBytes)}) {
  MutexLock lock(Live().mu);
  Live().devices.push_back(this);
}

FakeDevice::~FakeDevice() {
  MutexLock lock(Live().mu);
  std::erase(Live().devices, this);
}

std::vector<FakeDevice*> FakeDevice::All() {
  MutexLock lock(Live().mu);
  return Live().devices;
}

void* FakeDevice::Open(const void* data) const {
  MR_CHECK(memory_.Contains(data));
  return memory_.Open(data);
}

// Copies hold the tensor on the other side; for their own memory the order of work is enough.
void FakeDevice::CopyToHost(const Tensor& from, const Tensor& to, CopyDone done) {
  to_host_.fetch_add(1, std::memory_order_relaxed);
  stream_.Launch([this, at = from.raw_data(), target = Tensor(to)]() mutable {
    std::memcpy(target.raw_data(), Open(at), target.num_bytes());
    return Status();
  });
  stream_.Record()->Then(std::move(done));
}

Status FakeDevice::CopyFromHost(const Tensor& from, const Tensor& to) {
  from_host_.fetch_add(1, std::memory_order_relaxed);
  stream_.Launch([this, from, at = to.raw_data()] {
    std::memcpy(Open(at), from.raw_data(), from.num_bytes());
    return Status();
  });
  return Status();
}

Status FakeDevice::CopyFromDevice(Device& source, const Tensor& from, const Tensor& to) {
  from_devices_.fetch_add(1, std::memory_order_relaxed);
  const auto& other = static_cast<const FakeDevice&>(source);
  if (&source != this) stream_.WaitFor(source.stream()->Record());
  // The source may reuse the memory unless the tensor is held.
  stream_.Launch([this, &other, from, at = to.raw_data()] {
    std::memmove(Open(at), other.Open(from.raw_data()), from.num_bytes());
    return Status();
  });
  return Status();
}

namespace {

constexpr int kPriority = 40;  // below that of CPUs
constexpr int kMaxDevices = 16;

Status MakeFakeDevices(const DeviceOptions& options, std::vector<std::unique_ptr<Device>>* devices) {
  const auto it = options.device_count.find(FakeDevice::kType);
  const int count = it == options.device_count.end() ? 0 : it->second;
  if (count < 0 || count > kMaxDevices) return errors::InvalidArgument("Too many devices: ", count);
  for (int i = 0; i < count; ++i) {
    devices->push_back(std::make_unique<FakeDevice>(
        DeviceAttributes{.name = StrCat(options.name_prefix, "/device:", FakeDevice::kType, ":", i),
                         .type = FakeDevice::kType,
                         .memory_limit = static_cast<int64_t>(FakeDevice::kMemoryBytes),
                         .incarnation = NewIncarnation(),
                         .physical_description = "memory that the host cannot read"}));
  }
  return Status();
}

}  // namespace

Status RegisterFakeDeviceFactory(DeviceFactoryRegistry& registry) {
  return registry.Register(FakeDevice::kType, kPriority, MakeFakeDevices);
}

}  // namespace millrace
