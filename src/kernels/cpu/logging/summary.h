// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"

namespace tensorflow {
class Summary;
}

namespace millrace {

// Output 0: the message, serialized.
Status SetSummary(KernelContext& context, const tensorflow::Summary& summary);

// Element i of a tensor of a real type.
double RealAt(const Tensor& t, int64_t i);

// Each adds values to a summary. What is wrong with a tensor is an error with TensorFlow's words.
void AddTensor(const std::string& tag, const Tensor& tensor, tensorflow::Summary* summary);
// How the elements are spread; `name` is the node's, for errors.
Status AddHistogram(const std::string& tag, const Tensor& values, const std::string& name,
                    tensorflow::Summary* summary);
// At most `most` images of a batch; `bad_color`, a vector of uint8, stands for pixels that are not finite.
Status AddImages(KernelContext& context, const std::string& tag, const Tensor& images, int64_t most,
                 const Tensor& bad_color, tensorflow::Summary* summary);
// At most `most` clips of a batch.
Status AddAudio(const std::string& tag, const Tensor& clips, float sample_rate, int64_t most,
                tensorflow::Summary* summary);

}  // namespace millrace
