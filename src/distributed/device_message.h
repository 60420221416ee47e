// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.h"

namespace tensorflow {
class DeviceAttributes;
}

namespace millrace {

void AttributesToProto(const DeviceAttributes& attributes, tensorflow::DeviceAttributes* proto);
DeviceAttributes AttributesFromProto(const tensorflow::DeviceAttributes& proto);

}  // namespace millrace
