// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// A serialised SummaryMetadata that names the TensorBoard plugin of a summary.
std::string PluginMetadata(std::string_view plugin);

}  // namespace millrace
