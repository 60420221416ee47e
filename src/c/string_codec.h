// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

// String tensors in the layout of the C API of TensorFlow 1.x: for each element its offset
// (uint64), counted from the end of the offsets; then the elements, each its length as a varint and
// its bytes.
namespace millrace::c_api {

size_t EncodedStringsSize(std::span<const std::string> strings);
// REQUIRES: room for EncodedStringsSize bytes.
void EncodeStrings(std::span<const std::string> strings, char* out);
// Reads no byte beyond `bytes`, whatever the offsets and lengths are.
StatusOr<Tensor> DecodeStrings(std::string_view bytes, const TensorShape& shape);

}  // namespace millrace::c_api
