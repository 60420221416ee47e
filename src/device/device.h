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

#include "base/mutex.h"
#include "device/device_name.h"
#include "millrace/status.h"
#include "tensor/allocator.h"

namespace millrace {

struct DeviceAttributes {
  std::string name;  // full
  std::string type;  // "CPU"
  int64_t memory_limit = 0;
  uint64_t incarnation = 0;  // never 0; new for each device object
  std::string physical_description;
};

// Something that kernels run on. Thread-safe; lives as long as its DeviceSet.
class Device {
 public:
  explicit Device(DeviceAttributes attributes);
  virtual ~Device() = default;
  const std::string& name() const { return attributes_.name; }
  const std::string& type() const { return attributes_.type; }
  const DeviceName& parsed_name() const { return parsed_name_; }
  const DeviceAttributes& attributes() const { return attributes_; }
  virtual Allocator& allocator() = 0;
  // Waits for work that kernels left running on the device.
  virtual Status Sync() { return Status(); }

 private:
  const DeviceAttributes attributes_;
  DeviceName parsed_name_;
};

// The devices that a session may use. Immutable after construction.
class DeviceSet {
 public:
  explicit DeviceSet(std::vector<std::unique_ptr<Device>> devices);
  // By full name; null when there is none.
  Device* Find(std::string_view name) const;
  // All devices that `spec` describes, in order of priority: faster types first, then by name.
  std::vector<Device*> Matching(const DeviceName& spec) const;
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  // Where feeds and fetches live: the first CPU of this task.
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
  // Unless empty: only devices that one of these partial names describes. The first CPU is always there,
  // since feeds and fetches live on it.
  std::vector<std::string> filters;
  int64_t cpu_bfc_limit_bytes = 0;  // > 0: CPUs allocate through HostBfcAllocator with that limit
};

using DeviceFactory = std::function<Status(const DeviceOptions&, std::vector<std::unique_ptr<Device>>*)>;

// Makers of devices by type, with a priority (higher is preferred by the placer). Thread-safe.
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
