// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace millrace {

// The same devices with names in another task, "/job:…/replica:…/task:…". They keep their incarnations, and
// the originals.
std::shared_ptr<DeviceSet> RenameDevices(const std::shared_ptr<DeviceSet>& devices, const std::string& task);

}  // namespace millrace
