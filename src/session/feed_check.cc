// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/feed_check.h"

namespace millrace {

Status CheckFeed(const EndpointInfo& info, const std::string& name, size_t index, const Tensor& value) {
  if (value.dtype() != info.dtype) {
    return errors::InvalidArgument("Expects arg[", index, "] to be ", DataTypeName(info.dtype), " but ",
                                   DataTypeName(value.dtype()), " is provided");
  }
  if (!value.IsInitialized())
    return errors::InvalidArgument("The value fed for tensor '", name, "' is not initialized");
  return Status();
}

}  // namespace millrace
