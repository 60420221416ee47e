// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/graph/libtorch_mlp.h"

#include <torch/torch.h>

#include <vector>

namespace millrace::bench {

struct LibtorchMlp::Impl {
  int threads;
  torch::Tensor x;
  std::vector<torch::Tensor> weights, biases;
};

LibtorchMlp::LibtorchMlp(int layers, int64_t width, int64_t batch, int threads)
    : impl_(std::make_unique<Impl>()) {
  const c10::InferenceMode inference;
  impl_->threads = threads;
  impl_->x = torch::rand({batch, width}) * 2 - 1;
  for (int i = 0; i < layers; ++i) {
    impl_->weights.push_back((torch::rand({width, width}) * 2 - 1) * 0.15);
    impl_->biases.push_back((torch::rand({width}) * 2 - 1) * 0.1);
  }
}

LibtorchMlp::~LibtorchMlp() = default;

float LibtorchMlp::Run() {
  const c10::InferenceMode inference;
  torch::set_num_threads(impl_->threads);
  torch::Tensor y = impl_->x;
  for (size_t i = 0; i < impl_->weights.size(); ++i) {
    y = torch::addmm(impl_->biases[i], y, impl_->weights[i]).relu_();
  }
  return y.data_ptr<float>()[0];
}

}  // namespace millrace::bench
