// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "millrace/json_writer.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

struct TensorTextOptions {
  // Tensors with more elements are shortened to the first and the last `edge` items of each dimension.
  int64_t most_elements = 1000;
  int64_t edge = 3;
  size_t line = 100;         // characters
  size_t string_bytes = 80;  // of each string
};

// The elements as NumPy prints them: nested brackets, aligned columns, "..." for omitted elements.
std::string TensorText(const Tensor& tensor, const TensorTextOptions& options = {});

// {"dtype": "float", "shape": [2, 3], "values": …}: nested arrays, or null for more elements than
// `most_elements`. Numbers that are not finite are null; strings that are not UTF-8 are {"b64": …}; complex
// numbers are [real, imaginary].
void WriteTensorJson(const Tensor& tensor, int64_t most_elements, JsonWriter* json);
// With the shortest digits that read back as the float, or null.
void WriteNumberJson(float number, JsonWriter* json);
// A string.
void WriteBytesJson(std::string_view bytes, JsonWriter* json);

// "float [2,3]".
std::string TypeAndShape(DataType dtype, const TensorShape& shape);

struct TensorStatistics {
  int64_t elements = 0;
  int64_t not_finite = 0;
  double min = 0, max = 0, mean = 0;  // of the finite ones
};
// For numbers and bools; complex numbers and other types have none.
bool ComputeStatistics(const Tensor& tensor, TensorStatistics* statistics);

// The largest difference of two tensors of the same type and shape.
struct TensorDifference {
  int64_t different = 0;  // elements; NaNs are equal to each other
  double largest = 0;     // of numbers; infinite when only one of the two is finite
  int64_t beyond = 0;     // elements whose difference is more than absolute + relative * |second|
};
TensorDifference CompareTensors(const Tensor& a, const Tensor& b, double absolute, double relative);

}  // namespace millrace
