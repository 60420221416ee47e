// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "device/device_name.h"

namespace millrace {

// The description of a device in every process: its name and attributes. Its own process also has the Device.
// Immutable.
class DeviceDescription {
 public:
  explicit DeviceDescription(DeviceAttributes attributes);
  const std::string& name() const { return attributes_.name; }
  const std::string& type() const { return attributes_.type; }
  const DeviceName& parsed_name() const { return parsed_name_; }
  const DeviceAttributes& attributes() const { return attributes_; }

 private:
  const DeviceAttributes attributes_;
  DeviceName parsed_name_;
};

// The devices that a session may use, of all its tasks, for the placement of nodes. Immutable; copies share
// the descriptions.
class DeviceView {
 public:
  explicit DeviceView(const std::vector<DeviceAttributes>& devices);
  explicit DeviceView(const DeviceSet& devices);
  // The devices of several tasks. The client is at the first.
  explicit DeviceView(const std::vector<const DeviceView*>& tasks);

  // By full name, in any spelling; null when there is none.
  const DeviceDescription* Find(std::string_view name) const;
  // All devices that match `spec`, in order of priority: faster types first, then those of the client's task,
  // then by name.
  std::vector<const DeviceDescription*> Matching(const DeviceName& spec) const;
  const std::vector<std::shared_ptr<const DeviceDescription>>& devices() const { return devices_; }
  // The device of feeds and fetches: the first CPU (without one, the first device). Null if there are none.
  const DeviceDescription* client_device() const { return client_device_; }
  // Device types by priority, each once.
  const std::vector<std::string>& types() const { return types_; }
  // Of the device with that full name; 1 when there is none.
  uint64_t IncarnationOf(std::string_view name) const;

 private:
  void Add(std::shared_ptr<const DeviceDescription> device);
  void SortTypes();

  std::vector<std::shared_ptr<const DeviceDescription>> devices_;
  std::map<std::string, const DeviceDescription*, std::less<>> by_name_;
  std::vector<std::string> types_;
  const DeviceDescription* client_device_ = nullptr;
};

}  // namespace millrace
