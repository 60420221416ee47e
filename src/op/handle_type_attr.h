// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace millrace {

// On the _Arg of a resource: the type of its value.
inline constexpr std::string_view kHandleTypeAttr = "_handle_type";

}  // namespace millrace
