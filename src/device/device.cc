// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <tuple>
#include <utility>

#include "device/stream.h"

namespace millrace {
namespace {

// Order among devices of one type: by task, then by index as a number.
bool NameLess(const Device* a, const Device* b) {
  const DeviceName& x = a->parsed_name();
  const DeviceName& y = b->parsed_name();
  return std::tie(x.job, x.replica, x.task, x.index) < std::tie(y.job, y.replica, y.task, y.index);
}

Status ApplyFilters(const std::vector<std::string>& filters, std::vector<std::unique_ptr<Device>>* devices) {
  if (filters.empty()) return Status();
  std::vector<DeviceName> wanted;
  for (const std::string& filter : filters) {
    auto parsed = DeviceName::Parse(filter);
    if (!parsed.ok()) return parsed.status().WithContext("; in device_filters");
    wanted.push_back(*std::move(parsed));
  }
  const Device* client = devices->front().get();
  std::erase_if(*devices, [&](const std::unique_ptr<Device>& device) {
    return device.get() != client && std::none_of(wanted.begin(), wanted.end(), [&](const DeviceName& name) {
             return name.Describes(device->parsed_name());
           });
  });
  return Status();
}

// The devices from number `first` on are those of one factory.
Status CheckNames(const std::vector<std::unique_ptr<Device>>& devices, size_t first) {
  for (size_t i = first; i < devices.size(); ++i) {
    const Device* const device = devices[i].get();
    if (device == nullptr) return errors::InvalidArgument("A device is null");
    if (!device->parsed_name().IsFullySpecified()) {
      return errors::InvalidArgument(
          "'", device->name(), "' is not the full name of a device, /job:J/replica:R/task:T/device:TYPE:N");
    }
    for (size_t other = 0; other < i; ++other) {
      if (devices[other]->parsed_name() == device->parsed_name())
        return errors::InvalidArgument("Two devices have the name '", device->name(), "'");
    }
  }
  return Status();
}

}  // namespace

Device::Device(DeviceAttributes attributes) : attributes_(std::move(attributes)) {
  parsed_name_ = DeviceName::Parse(attributes_.name).value_or(DeviceName());
}

Status Device::Sync() {
  Stream* const work = stream();
  return work == nullptr ? Status() : work->Record()->Wait();
}

void Device::CopyToHost(const Tensor& /*from*/, const Tensor& /*to*/, CopyDone done) {
  done(errors::Unimplemented("Devices of type ", type(), " cannot copy to the host"));
}

Status Device::CopyFromHost(const Tensor& /*from*/, const Tensor& /*to*/) {
  return errors::Unimplemented("Devices of type ", type(), " cannot copy from the host");
}

Status Device::CopyFromDevice(Device& source, const Tensor& /*from*/, const Tensor& /*to*/) {
  return errors::Unimplemented("Devices of type ", type(), " cannot copy from devices of type ",
                               source.type());
}

uint64_t NewIncarnation() {
  static std::atomic<uint64_t> next{1};
  std::random_device random;
  // The low 16 bits count (any order of increments will do), the others are random.
  const uint64_t count = next.fetch_add(1, std::memory_order_relaxed) & 0xffff;
  const uint64_t high = (uint64_t{random()} << 32 | random()) & ~uint64_t{0xffff};
  return (high | count) == 0 ? 1 : (high | count);
}

DeviceSet::DeviceSet(std::vector<std::unique_ptr<Device>> devices) : devices_(std::move(devices)) {
  for (const auto& device : devices_) {
    by_name_.emplace(device->name(), device.get());
    if (std::find(types_.begin(), types_.end(), device->type()) == types_.end())
      types_.push_back(device->type());
    if (client_device_ == nullptr && device->type() == "CPU") client_device_ = device.get();
  }
  if (client_device_ == nullptr && !devices_.empty()) client_device_ = devices_.front().get();
  const DeviceFactoryRegistry& registry = DeviceFactoryRegistry::Global();
  std::sort(types_.begin(), types_.end(), [&](const std::string& a, const std::string& b) {
    return std::make_tuple(-registry.Priority(a), std::cref(a)) <
           std::make_tuple(-registry.Priority(b), std::cref(b));
  });
}

Device* DeviceSet::Find(std::string_view name) const {
  if (const auto it = by_name_.find(name); it != by_name_.end()) return it->second;
  const auto parsed = DeviceName::Parse(name);
  if (!parsed.ok() || !parsed->IsFullySpecified()) return nullptr;
  const auto it = by_name_.find(parsed->ToString());
  return it == by_name_.end() ? nullptr : it->second;
}

std::vector<Device*> DeviceSet::Matching(const DeviceName& spec) const {
  std::vector<Device*> found;
  for (const std::string& type : types_) {
    const size_t first = found.size();
    for (const auto& device : devices_) {
      if (device->type() == type && spec.Describes(device->parsed_name())) found.push_back(device.get());
    }
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end(), NameLess);
  }
  return found;
}

Status DeviceFactoryRegistry::Register(std::string type, int priority, DeviceFactory factory) {
  const MutexLock lock(mu_);
  if (!factories_.try_emplace(type, Entry{priority, std::move(factory)}).second) {
    return errors::AlreadyExists("Device factory for type '", type, "' is registered already");
  }
  return Status();
}

int DeviceFactoryRegistry::Priority(std::string_view type) const {
  // A device without a registered type is still preferred to a CPU: it is there because it is faster.
  constexpr int kCpu = 50;
  constexpr int kOther = 200;
  const MutexLock lock(mu_);
  const auto it = factories_.find(type);
  if (it != factories_.end()) return it->second.priority;
  return type == "CPU" ? kCpu : kOther;
}

StatusOr<std::unique_ptr<DeviceSet>> DeviceFactoryRegistry::CreateDevices(
    const DeviceOptions& options) const {
  std::vector<std::pair<std::string, DeviceFactory>> factories;
  {
    const MutexLock lock(mu_);
    for (const auto& [type, entry] : factories_) factories.emplace_back(type, entry.factory);
  }
  // The CPU comes first: it is the client's device.
  std::stable_partition(factories.begin(), factories.end(), [](const auto& f) { return f.first == "CPU"; });
  if (factories.empty() || factories.front().first != "CPU") {
    return errors::NotFound("CPU Factory not registered. Did you link in the CPU devices?");
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (const auto& [type, factory] : factories) {
    const size_t first = devices.size();
    Status status = factory(options, &devices);
    if (status.ok()) status = CheckNames(devices, first);
    if (!status.ok()) return status.WithContext(StrCat("; while making devices of type ", type));
  }
  MR_RETURN_IF_ERROR(ApplyFilters(options.filters, &devices));
  return std::make_unique<DeviceSet>(std::move(devices));
}

DeviceFactoryRegistry& DeviceFactoryRegistry::Global() {
  static DeviceFactoryRegistry* const registry = new DeviceFactoryRegistry;
  return *registry;
}

}  // namespace millrace
