// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "base/mutex.h"
#include "device/device_name.h"
#include "millrace/status.h"
#include "tensor/allocator.h"

namespace millrace {

class Stream;
class Tensor;

struct DeviceAttributes {
  std::string name;  // full
  std::string type;  // "CPU"
  int64_t memory_limit = 0;
  uint64_t incarnation = 0;  // never 0; new for each device object
  std::string physical_description;
};

// A place to run kernels: memory, and a stream of work for kernels that work asynchronously.
// Thread-safe; lives as long as its DeviceSet. The contract, and how a device type is added:
// docs/devices.md.
class Device : public MemorySpace {
 public:
  using CopyDone = UniqueFunction<void(const Status&)>;

  explicit Device(DeviceAttributes attributes);
  virtual ~Device() = default;
  const std::string& name() const { return attributes_.name; }
  const std::string& type() const { return attributes_.type; }
  const DeviceName& parsed_name() const { return parsed_name_; }
  const DeviceAttributes& attributes() const { return attributes_; }

  // Allocates the memory in which kernels compute. Its memory_space() is this device, or null for host
  // memory. A block may be reused while work in the stream still uses it, because later work runs after
  // that.
  virtual Allocator& allocator() = 0;
  // Allocates the host memory for copies from and to the device.
  virtual Allocator& host_allocator() { return CpuAllocator(); }
  bool has_own_memory() { return allocator().memory_space() != nullptr; }

  // The stream for asynchronous work of kernels. Null: a kernel's results are complete when it returns.
  virtual Stream* stream() { return nullptr; }
  // Waits for all work in the stream, and returns its status.
  Status Sync();

  // Copies, for devices with memory of their own: work in the stream. Tensors have the same type and shape,
  // `to` is allocated, and the device holds references to both for as long as it needs them.
  //
  // From the memory of this device. `done` is called once, from this thread or another, with no lock held,
  // when the host may read `to`; it must not block.
  virtual void CopyToHost(const Tensor& from, const Tensor& to, CopyDone done);
  // To the memory of this device: later work in the stream sees it.
  virtual Status CopyFromHost(const Tensor& from, const Tensor& to);
  // The same from the memory of `source`, after the work in its stream so far. REQUIRES:
  // CanCopyFrom(source).
  virtual Status CopyFromDevice(Device& source, const Tensor& from, const Tensor& to);
  // Without a copy in host memory. A device with memory of its own can copy from itself.
  virtual bool CanCopyFrom(const Device& /*source*/) const { return false; }

 private:
  const DeviceAttributes attributes_;
  DeviceName parsed_name_;
};

// Never 0, and different for any two devices of one process.
uint64_t NewIncarnation();

// The devices that a session may use. Immutable after construction.
class DeviceSet {
 public:
  explicit DeviceSet(std::vector<std::unique_ptr<Device>> devices);
  // By full name; null when there is none.
  Device* Find(std::string_view name) const;
  // All devices that match `spec`, in order of priority: faster types first, then by name.
  std::vector<Device*> Matching(const DeviceName& spec) const;
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  // The device of feeds and fetches: the first CPU of this task.
  Device* client_device() const { return client_device_; }
  // Device types by priority, each once.
  const std::vector<std::string>& types() const { return types_; }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::string, Device*, std::less<>> by_name_;
  std::vector<std::string> types_;
  Device* client_device_ = nullptr;
};

// Options that a factory sees.
struct DeviceOptions {
  std::map<std::string, int> device_count;  // by type; a CPU count of 0 or absence means one
  std::string name_prefix = "/job:localhost/replica:0/task:0";
  // Unless empty: only devices that match one of these partial names. The first CPU is always included, since
  // it has feeds and fetches.
  std::vector<std::string> filters;
  int64_t cpu_bfc_limit_bytes = 0;  // > 0: CPUs allocate through HostBfcAllocator with that limit
};

using DeviceFactory = std::function<Status(const DeviceOptions&, std::vector<std::unique_ptr<Device>>*)>;

// Factories of devices by type, with a priority (the placer prefers higher ones). Thread-safe.
class DeviceFactoryRegistry {
 public:
  Status Register(std::string type, int priority, DeviceFactory factory);
  StatusOr<std::unique_ptr<DeviceSet>> CreateDevices(const DeviceOptions& options) const;
  int Priority(std::string_view type) const;
  static DeviceFactoryRegistry& Global();

 private:
  struct Entry {
    int priority;
    DeviceFactory factory;
  };
  mutable Mutex mu_;
  std::map<std::string, Entry, std::less<>> factories_ MR_GUARDED_BY(mu_);
};

// Registers type "CPU" (device/cpu/cpu_device.cc).
Status RegisterCpuDeviceFactory(DeviceFactoryRegistry& registry);

}  // namespace millrace
