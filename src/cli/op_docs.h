// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace millrace::cli {

// What an op does, in a sentence; "" for those that nobody described yet. Later versions of an op, its
// gradient and its form for resources are described by what they belong to.
std::string OpDoc(std::string_view op);

}  // namespace millrace::cli
