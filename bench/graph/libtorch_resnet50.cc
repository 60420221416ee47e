// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/graph/libtorch_resnet50.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/graph/resnet50.h"

namespace millrace::bench {
namespace {

torch::Tensor Of(const std::vector<float>& values, at::IntArrayRef sizes) {
  return torch::tensor(values).reshape(sizes).clone();
}

struct Layer {
  ConvLayer layer;
  torch::Tensor filter, scale, offset, mean, variance;
};

Layer MakeLayer(const ConvLayer& layer, at::MemoryFormat format) {
  LayerWeights random(layer.index);
  Layer made{layer};
  const torch::Tensor filter =
      Of(random.Filter(layer), {layer.side, layer.side, layer.in, layer.out}).permute({3, 2, 0, 1});
  made.filter = filter.contiguous(format);
  made.scale = Of(random.Scale(layer), {layer.out});
  made.offset = Of(random.Uniform(layer.out, -0.1f, 0.1f), {layer.out});
  made.mean = Of(random.Uniform(layer.out, -0.1f, 0.1f), {layer.out});
  made.variance = Of(random.Uniform(layer.out, 0.5f, 1.5f), {layer.out});
  return made;
}

struct DenseLayer {
  torch::Tensor weight, bias;
};

DenseLayer MakeDense(int64_t in, int64_t out) {
  LayerWeights random(999);
  const float limit = std::sqrt(3 / static_cast<float>(in));
  DenseLayer made;
  made.weight = Of(random.Uniform(in * out, -limit, limit), {in, out}).t().contiguous();
  made.bias = Of(random.Uniform(out, -0.1f, 0.1f), {out});
  return made;
}

// Makes the weights in the first pass, which computes no values.
class WeightsNet {
 public:
  using Value = int;
  explicit WeightsNet(at::MemoryFormat format) : format_(format) {}
  Value Conv(Value x, const ConvLayer& layer) {
    layers.push_back(MakeLayer(layer, format_));
    return x;
  }
  Value Relu(Value x) { return x; }
  Value Add(Value x, Value /*y*/) { return x; }
  Value MaxPool(Value x) { return x; }
  Value Dense(Value x, int64_t in, int64_t out) {
    dense = MakeDense(in, out);
    return x;
  }
  std::vector<Layer> layers;
  DenseLayer dense;

 private:
  at::MemoryFormat format_;
};

class EagerNet {
 public:
  using Value = torch::Tensor;
  EagerNet(const std::vector<Layer>& layers, const DenseLayer& dense) : layers_(layers), dense_(dense) {}
  Value Conv(const Value& x, const ConvLayer& layer) {
    const Layer& l = layers_[static_cast<size_t>(layer.index)];
    const torch::Tensor y = torch::conv2d(x, l.filter, {}, layer.stride, (layer.side - 1) / 2);
    return torch::batch_norm(y, l.scale, l.offset, l.mean, l.variance, false, 0.1, kBatchNormEpsilon, false);
  }
  Value Relu(Value x) { return x.relu_(); }
  Value Add(Value x, const Value& y) { return x.add_(y); }
  Value MaxPool(const Value& x) { return torch::max_pool2d(x, 3, 2, 0, 1, true); }
  Value Dense(const Value& x, int64_t /*in*/, int64_t /*out*/) {
    return torch::linear(x.mean({2, 3}), dense_.weight, dense_.bias);
  }

 private:
  const std::vector<Layer>& layers_;
  const DenseLayer& dense_;
};

// The text of a TorchScript method.
class ScriptNet {
 public:
  using Value = std::string;
  Value Conv(const Value& x, const ConvLayer& layer) {
    const std::string i = std::to_string(layer.index);
    const std::string pad = std::to_string((layer.side - 1) / 2), stride = std::to_string(layer.stride);
    const std::string y = Let("torch.conv2d(" + x + ", self.filter" + i + ", None, [" + stride + ", " +
                              stride + "], [" + pad + ", " + pad + "], [1, 1], 1)");
    return Let("torch.batch_norm(" + y + ", self.scale" + i + ", self.offset" + i + ", self.mean" + i +
               ", self.variance" + i + ", False, 0.1, 1e-05, False)");
  }
  Value Relu(const Value& x) { return Let("torch.relu(" + x + ")"); }
  Value Add(const Value& x, const Value& y) { return Let(x + " + " + y); }
  Value MaxPool(const Value& x) {
    return Let("torch.max_pool2d(" + x + ", [3, 3], [2, 2], [0, 0], [1, 1], True)");
  }
  Value Dense(const Value& x, int64_t /*in*/, int64_t /*out*/) {
    return Let("torch.addmm(self.bias, torch.mean(" + x + ", [2, 3]), self.weight)");
  }
  std::string Text(const Value& result) const {
    return "def forward(self, x):\n" + text_ + "  return " + result + "\n";
  }

 private:
  Value Let(const std::string& expression) {
    const std::string name = "v" + std::to_string(next_++);
    text_ += "  " + name + " = " + expression + "\n";
    return name;
  }
  std::string text_;
  int next_ = 0;
};

torch::jit::Module Script(const std::vector<Layer>& layers, const DenseLayer& dense) {
  torch::jit::Module module("resnet50");
  for (const Layer& l : layers) {
    const std::string i = std::to_string(l.layer.index);
    module.register_buffer("filter" + i, l.filter);
    module.register_buffer("scale" + i, l.scale);
    module.register_buffer("offset" + i, l.offset);
    module.register_buffer("mean" + i, l.mean);
    module.register_buffer("variance" + i, l.variance);
  }
  module.register_buffer("weight", dense.weight.t().contiguous());
  module.register_buffer("bias", dense.bias);
  ScriptNet net;
  const std::string result = BuildResnet50(net, "x");
  module.define(net.Text(result));
  module.eval();
  return module;
}

}  // namespace

struct LibtorchResnet50::Impl {
  int threads;
  torch::Tensor image;
  std::vector<Layer> layers;
  DenseLayer dense;
  std::unique_ptr<torch::jit::Module> script;
};

LibtorchResnet50::LibtorchResnet50(LibtorchForm form, int64_t batch, int threads)
    : impl_(std::make_unique<Impl>()) {
  torch::set_num_threads(threads);
  impl_->threads = threads;
  const bool last = form == LibtorchForm::kChannelsLast || form == LibtorchForm::kFrozenLast;
  const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const torch::NoGradGuard no_grad;
  impl_->image =
      Of(RandomImages(batch), {batch, kImageSide, kImageSide, 3}).permute({0, 3, 1, 2}).contiguous(format);
  WeightsNet weights(format);
  BuildResnet50(weights, 0);
  impl_->layers = std::move(weights.layers);
  impl_->dense = std::move(weights.dense);
  if (form == LibtorchForm::kContiguous || form == LibtorchForm::kChannelsLast) return;
  torch::jit::Module module = Script(impl_->layers, impl_->dense);
  impl_->layers.clear();
  module = form == LibtorchForm::kOptimized ? torch::jit::optimize_for_inference(module)
                                            : torch::jit::freeze(module);
  impl_->script = std::make_unique<torch::jit::Module>(std::move(module));
}

LibtorchResnet50::~LibtorchResnet50() = default;

std::vector<float> LibtorchResnet50::Run() {
  const c10::InferenceMode inference;
  torch::set_num_threads(impl_->threads);
  torch::Tensor y;
  if (impl_->script != nullptr) {
    y = impl_->script->forward({impl_->image}).toTensor();
  } else {
    EagerNet net(impl_->layers, impl_->dense);
    y = BuildResnet50(net, impl_->image);
  }
  y = y.contiguous();
  return {y.data_ptr<float>(), y.data_ptr<float>() + y.numel()};
}

}  // namespace millrace::bench
