// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "data/dataset.h"

namespace millrace::data {

// A dataset of elements in memory.
RefPtr<const Dataset> DatasetOf(Dataset::Signature signature, std::vector<Element> elements);

}  // namespace millrace::data
