// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/shape.h"

namespace millrace {

// The element type of resource tensors: the name of a resource in a device's resource manager. A plain value;
// it holds no reference to the resource.
struct ResourceHandle {
  struct DtypeAndShape {
    DataType dtype = DataType::kInvalid;
    PartialShape shape;
    friend bool operator==(const DtypeAndShape&, const DtypeAndShape&) = default;
  };

  std::string device;
  std::string container;
  std::string name;
  uint64_t hash_code = 0;       // of the C++ type of the resource, checked on look-up
  std::string maybe_type_name;  // for messages
  std::vector<DtypeAndShape> dtypes_and_shapes;

  std::string DebugString() const;
  friend bool operator==(const ResourceHandle&, const ResourceHandle&) = default;
};

}  // namespace millrace
