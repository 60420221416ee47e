// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "io/example/example_parser.h"

// Examples as programs write them: each feature once, with one packed list that has as many values as the
// dense feature requires. One pass copies such values straight to their places.
namespace millrace::io {

// Whether it is worth trying: all features of the table are dense with a known number of values, and the
// examples have so many bytes that they may have all values which have no default.
bool MayBePlain(const FeatureTable& table, const ParseRequest& request);

// Copies the features of the examples [begin, end) to their rows of `values`, one tensor for each feature.
// False when an example is not plain, or broken; the rows are then undefined. REQUIRES: MayBePlain.
bool ParsePlainExamples(const FeatureTable& table, const ParseRequest& request, int64_t begin, int64_t end,
                        ParsedFeatures* values);

}  // namespace millrace::io
