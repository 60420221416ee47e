// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device/bfc_allocator.h"
#include "device/device.h"

namespace millrace {
namespace {

constexpr int kPriority = 50;
constexpr int kMaxDevices = 4096;
constexpr int64_t kMemoryLimit = int64_t{256} << 20;  // what TensorFlow reports for a CPU

class CpuDevice : public Device {
 public:
  CpuDevice(DeviceAttributes attributes, Allocator& allocator)
      : Device(std::move(attributes)), allocator_(allocator) {}
  Allocator& allocator() override { return allocator_; }

 private:
  Allocator& allocator_;
};

Status MakeCpuDevices(const DeviceOptions& options, std::vector<std::unique_ptr<Device>>* devices) {
  int count = 1;
  if (const auto it = options.device_count.find("CPU"); it != options.device_count.end() && it->second != 0) {
    count = it->second;
  }
  if (count < 0 || count > kMaxDevices) {
    return errors::InvalidArgument("device_count of CPU must be between 0 and ", kMaxDevices, ", got ",
                                   count);
  }
  const int64_t limit = options.cpu_bfc_limit_bytes;
  Allocator& allocator = limit > 0 ? HostBfcAllocator(limit) : CpuAllocator();
  for (int i = 0; i < count; ++i) {
    DeviceAttributes attributes;
    attributes.name = StrCat(options.name_prefix, "/device:CPU:", i);
    attributes.type = "CPU";
    attributes.memory_limit = limit > 0 ? limit : kMemoryLimit;
    attributes.incarnation = NewIncarnation();
    MR_ASSIGN_OR_RETURN(const DeviceName parsed, DeviceName::Parse(attributes.name));
    if (!parsed.IsFullySpecified()) {
      return errors::InvalidArgument("Device name prefix '", options.name_prefix,
                                     "' must give job, replica and task");
    }
    devices->push_back(std::make_unique<CpuDevice>(std::move(attributes), allocator));
  }
  return Status();
}

}  // namespace

Status RegisterCpuDeviceFactory(DeviceFactoryRegistry& registry) {
  return registry.Register("CPU", kPriority, MakeCpuDevices);
}

}  // namespace millrace
