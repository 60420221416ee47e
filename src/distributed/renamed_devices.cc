// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/renamed_devices.h"

#include <utility>
#include <vector>

namespace millrace {
namespace {

class RenamedDevice : public Device {
 public:
  RenamedDevice(std::shared_ptr<DeviceSet> all, Device& original, DeviceAttributes attributes)
      : Device(std::move(attributes)), all_(std::move(all)), original_(original) {}
  Allocator& allocator() override { return original_.allocator(); }
  Allocator& host_allocator() override { return original_.host_allocator(); }
  Stream* stream() override { return original_.stream(); }
  void CopyToHost(const Tensor& from, const Tensor& to, CopyDone done) override {
    original_.CopyToHost(from, to, std::move(done));
  }
  Status CopyFromHost(const Tensor& from, const Tensor& to) override {
    return original_.CopyFromHost(from, to);
  }
  Status CopyFromDevice(Device& source, const Tensor& from, const Tensor& to) override {
    return original_.CopyFromDevice(Original(source), from, to);
  }
  bool CanCopyFrom(const Device& source) const override {
    const auto* const renamed = dynamic_cast<const RenamedDevice*>(&source);
    return original_.CanCopyFrom(renamed == nullptr ? source : renamed->original_);
  }

 private:
  static Device& Original(Device& device) {
    auto* const renamed = dynamic_cast<RenamedDevice*>(&device);
    return renamed == nullptr ? device : renamed->original_;
  }

  const std::shared_ptr<DeviceSet> all_;
  Device& original_;
};

}  // namespace

std::shared_ptr<DeviceSet> RenameDevices(const std::shared_ptr<DeviceSet>& devices, const std::string& task) {
  std::vector<std::unique_ptr<Device>> renamed;
  for (const auto& device : devices->devices()) {
    DeviceAttributes attributes = device->attributes();
    const size_t local = attributes.name.find("/device:");
    if (local == std::string::npos) continue;
    attributes.name = task + attributes.name.substr(local);
    renamed.push_back(std::make_unique<RenamedDevice>(devices, *device, std::move(attributes)));
  }
  return std::make_shared<DeviceSet>(std::move(renamed));
}

}  // namespace millrace
