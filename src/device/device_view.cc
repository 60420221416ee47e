// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/device_view.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

namespace millrace {

DeviceDescription::DeviceDescription(DeviceAttributes attributes) : attributes_(std::move(attributes)) {
  parsed_name_ = DeviceName::Parse(attributes_.name).value_or(DeviceName());
}

DeviceView::DeviceView(const std::vector<DeviceAttributes>& devices) {
  for (const DeviceAttributes& device : devices) Add(std::make_shared<DeviceDescription>(device));
  SortTypes();
}

DeviceView::DeviceView(const DeviceSet& devices) {
  for (const auto& device : devices.devices()) Add(std::make_shared<DeviceDescription>(device->attributes()));
  SortTypes();
}

DeviceView::DeviceView(const std::vector<const DeviceView*>& tasks) {
  for (const DeviceView* task : tasks) {
    for (const auto& device : task->devices()) Add(device);
  }
  SortTypes();
}

void DeviceView::Add(std::shared_ptr<const DeviceDescription> device) {
  by_name_.emplace(device->name(), device.get());
  if (std::find(types_.begin(), types_.end(), device->type()) == types_.end())
    types_.push_back(device->type());
  const bool is_first_cpu =
      device->type() == "CPU" && (client_device_ == nullptr || client_device_->type() != "CPU");
  if (client_device_ == nullptr || is_first_cpu) client_device_ = device.get();
  devices_.push_back(std::move(device));
}

void DeviceView::SortTypes() {
  const DeviceFactoryRegistry& registry = DeviceFactoryRegistry::Global();
  std::sort(types_.begin(), types_.end(), [&](const std::string& a, const std::string& b) {
    return std::make_tuple(-registry.Priority(a), std::cref(a)) <
           std::make_tuple(-registry.Priority(b), std::cref(b));
  });
}

const DeviceDescription* DeviceView::Find(std::string_view name) const {
  if (const auto it = by_name_.find(name); it != by_name_.end()) return it->second;
  const auto parsed = DeviceName::Parse(name);
  if (!parsed.ok() || !parsed->IsFullySpecified()) return nullptr;
  const auto it = by_name_.find(parsed->ToString());
  return it == by_name_.end() ? nullptr : it->second;
}

std::vector<const DeviceDescription*> DeviceView::Matching(const DeviceName& spec) const {
  if (spec.IsFullySpecified()) {  // of thousands, one
    const DeviceDescription* const device = Find(spec.ToString());
    if (device == nullptr) return {};
    return {device};
  }
  // Among devices of one type: by task, the client's first, then by index as a number.
  const auto less = [this](const DeviceDescription* a, const DeviceDescription* b) {
    const DeviceName& x = a->parsed_name();
    const DeviceName& y = b->parsed_name();
    const DeviceName& client = client_device_->parsed_name();
    const bool x_is_far = !x.SameTask(client);
    const bool y_is_far = !y.SameTask(client);
    return std::tie(x_is_far, x.job, x.replica, x.task, x.index) <
           std::tie(y_is_far, y.job, y.replica, y.task, y.index);
  };
  std::vector<const DeviceDescription*> found;
  for (const std::string& type : types_) {
    const size_t first = found.size();
    for (const auto& device : devices_) {
      if (device->type() == type && spec.Describes(device->parsed_name())) found.push_back(device.get());
    }
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end(), less);
  }
  return found;
}

uint64_t DeviceView::IncarnationOf(std::string_view name) const {
  const DeviceDescription* device = Find(name);
  return device == nullptr ? uint64_t{1} : device->attributes().incarnation;
}

}  // namespace millrace
