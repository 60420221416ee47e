// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.h"

namespace millrace::c_api {

// What a library's `create` gave for the device; null for devices that no library added.
void* HandleOfDevice(Device& device);

}  // namespace millrace::c_api
