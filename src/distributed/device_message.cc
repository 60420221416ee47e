// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/device_message.h"

#include "tensorflow/core/framework/device_attributes.pb.h"

namespace millrace {

void AttributesToProto(const DeviceAttributes& attributes, tensorflow::DeviceAttributes* proto) {
  proto->set_name(attributes.name);
  proto->set_device_type(attributes.type);
  proto->set_memory_limit(attributes.memory_limit);
  proto->set_incarnation(attributes.incarnation);
  proto->set_physical_device_desc(attributes.physical_description);
}

DeviceAttributes AttributesFromProto(const tensorflow::DeviceAttributes& proto) {
  return {proto.name(), proto.device_type(), proto.memory_limit(), proto.incarnation(),
          proto.physical_device_desc()};
}

}  // namespace millrace
