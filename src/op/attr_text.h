// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "op/attr_value.h"

namespace millrace {

// Parses the value of an attribute of type `type` in the registration language: 3, 0.5, true, "text" or
// 'text' with C escapes, DT_FLOAT, { dim { size: 2 } }, [1, 2], …: the text form of tensorflow.AttrValue
// without the field name.
StatusOr<AttrValue> ParseAttrText(std::string_view type, std::string_view text);

}  // namespace millrace
