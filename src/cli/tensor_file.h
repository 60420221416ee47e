// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "base/env.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace::cli {

// Writes one tensor to a path that ends with ".npy", or any number to one that ends with ".npz".
// InvalidArgument for other paths, and for what NumPy's files can't hold.
Status WriteTensors(Env& env, const std::string& path, const std::map<std::string, Tensor>& tensors);

// Whether the path ends with ".npy" or ".npz".
bool IsTensorFile(const std::string& path);

}  // namespace millrace::cli
