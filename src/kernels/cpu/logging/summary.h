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

// Sets output 0 to the serialized message.
Status SetSummary(KernelContext& context, const tensorflow::Summary& summary);

// Element i of a tensor of a real type.
double RealAt(const Tensor& t, int64_t i);

// Each adds values to a summary. Invalid tensors give errors with TensorFlow's texts.
void AddTensor(const std::string& tag, const Tensor& tensor, tensorflow::Summary* summary);
// A histogram of the elements; `name` is the node's, for errors.
Status AddHistogram(const std::string& tag, const Tensor& values, const std::string& name,
                    tensorflow::Summary* summary);
// At most `most` images of a batch; pixels that are not finite become `bad_color`, a vector of uint8.
Status AddImages(KernelContext& context, const std::string& tag, const Tensor& images, int64_t most,
                 const Tensor& bad_color, tensorflow::Summary* summary);
// At most `most` clips of a batch.
Status AddAudio(const std::string& tag, const Tensor& clips, float sample_rate, int64_t most,
                tensorflow::Summary* summary);

}  // namespace millrace
