// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "libtorch_step.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

namespace millrace::bench {
namespace {

constexpr double kSgdRate = 0.003;
constexpr double kAdamRate = 0.003;
constexpr int64_t kSide = 28;
constexpr int64_t kClasses = 10;

struct ConvSizes {
  int64_t out, filter, stride;
};

// TensorFlow's SAME padding, which torch's modules don't offer with strides: pad the image first where the
// two sides differ, else leave it to the convolution.
class SameConv : public torch::nn::Module {
 public:
  SameConv(int64_t side, int64_t in, const ConvSizes& sizes) {
    const int64_t out_side = (side + sizes.stride - 1) / sizes.stride;
    const int64_t total = std::max<int64_t>((out_side - 1) * sizes.stride + sizes.filter - side, 0);
    before_ = total / 2;
    after_ = total - before_;
    auto options = torch::nn::Conv2dOptions(in, sizes.out, sizes.filter).stride(sizes.stride);
    if (before_ == after_) options.padding(before_);
    conv_ = register_module("conv", torch::nn::Conv2d(options));
  }

  torch::Tensor forward(torch::Tensor x) {
    if (before_ != after_) x = torch::constant_pad_nd(x, {before_, after_, before_, after_});
    return torch::relu(conv_->forward(x));
  }

 private:
  int64_t before_, after_;
  torch::nn::Conv2d conv_{nullptr};
};

// Convolutions (perhaps none), then dense layers with relu between them.
class Network : public torch::nn::Module {
 public:
  Network(const std::vector<ConvSizes>& convs, const std::vector<int64_t>& widths) {
    int64_t side = kSide, channels = 1;
    for (const ConvSizes& sizes : convs) {
      const std::string name = "conv" + std::to_string(convs_.size());
      convs_.push_back(register_module(name, std::make_shared<SameConv>(side, channels, sizes)));
      side = (side + sizes.stride - 1) / sizes.stride;
      channels = sizes.out;
    }
    int64_t width = side * side * channels;
    for (int64_t next : widths) {
      const std::string name = "dense" + std::to_string(dense_.size());
      dense_.push_back(register_module(name, torch::nn::Linear(width, next)));
      width = next;
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (auto& conv : convs_) x = conv->forward(x);
    x = x.flatten(1);
    for (size_t i = 0; i < dense_.size(); ++i) {
      x = dense_[i]->forward(x);
      if (i + 1 < dense_.size()) x = torch::relu(x);
    }
    return x;
  }

 private:
  std::vector<std::shared_ptr<SameConv>> convs_;
  std::vector<torch::nn::Linear> dense_;
};

std::shared_ptr<Network> MakeNetwork(TorchModel model) {
  switch (model) {
    case TorchModel::kMlp:
      return std::make_shared<Network>(std::vector<ConvSizes>{},
                                       std::vector<int64_t>{200, 100, 60, 30, kClasses});
    case TorchModel::kConv:
      return std::make_shared<Network>(std::vector<ConvSizes>{{4, 5, 1}, {8, 5, 2}, {12, 4, 2}},
                                       std::vector<int64_t>{200, kClasses});
    case TorchModel::kConvLarge:
      return std::make_shared<Network>(std::vector<ConvSizes>{{6, 6, 1}, {12, 5, 2}, {24, 4, 2}},
                                       std::vector<int64_t>{200, kClasses});
    case TorchModel::kSoftmax:
      break;
  }
  return std::make_shared<Network>(std::vector<ConvSizes>{}, std::vector<int64_t>{kClasses});
}

}  // namespace

struct LibtorchStep::Impl {
  explicit Impl(const TorchStepOptions& given) : options(given) {
    at::set_num_threads(options.threads);
    torch::manual_seed(1);
    network = MakeNetwork(options.model);
    const bool images = options.model == TorchModel::kConv || options.model == TorchModel::kConvLarge;
    input =
        images ? torch::rand({options.batch, 1, kSide, kSide}) : torch::rand({options.batch, kSide * kSide});
    if (images && options.channels_last) {
      input = input.contiguous(torch::MemoryFormat::ChannelsLast);
      for (torch::Tensor& parameter : network->parameters()) {
        if (parameter.dim() == 4)
          parameter.set_data(parameter.data().contiguous(torch::MemoryFormat::ChannelsLast));
      }
    }
    labels = torch::randint(kClasses, {options.batch}, torch::kLong);
    if (options.model == TorchModel::kSoftmax) {
      optimizer = std::make_unique<torch::optim::SGD>(network->parameters(), kSgdRate);
    } else {
      optimizer = std::make_unique<torch::optim::Adam>(network->parameters(), kAdamRate);
    }
  }

  TorchStepOptions options;
  std::shared_ptr<Network> network;
  torch::Tensor input, labels;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

LibtorchStep::LibtorchStep(const TorchStepOptions& options) : impl_(std::make_unique<Impl>(options)) {}
LibtorchStep::~LibtorchStep() = default;

double LibtorchStep::RunStep() {
  Impl& m = *impl_;
  if (at::get_num_threads() != m.options.threads) at::set_num_threads(m.options.threads);
  m.optimizer->zero_grad();
  const torch::Tensor loss = torch::nn::functional::cross_entropy(m.network->forward(m.input), m.labels);
  loss.backward();
  m.optimizer->step();
  return loss.item<double>();
}

}  // namespace millrace::bench
