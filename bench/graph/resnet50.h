// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ResNet-50 (v1.5: the 3x3 convolution of a block has the stride), written once for every engine.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace millrace::bench {

constexpr int64_t kImageSide = 224;
constexpr int64_t kClasses = 1000;
constexpr float kBatchNormEpsilon = 1e-5f;

// One convolution with the batch norm that follows it.
struct ConvLayer {
  int index;  // the layer's place in the network
  int64_t in, out, side, stride;
  bool last;  // of a block: its result is added to the shortcut's
};

// Random weights of a layer, the same in every program. Filters are [side, side, in, out]; sizes keep what
// passes through them.
class LayerWeights {
 public:
  explicit LayerWeights(int index) : rng_(static_cast<unsigned>(index + 1)) {}

  std::vector<float> Filter(const ConvLayer& layer) {
    const auto inputs = static_cast<float>(layer.side * layer.side * layer.in);
    return Uniform(layer.side * layer.side * layer.in * layer.out, -std::sqrt(6 / inputs),
                   std::sqrt(6 / inputs));
  }
  std::vector<float> Scale(const ConvLayer& layer) {
    return Uniform(layer.out, layer.last ? 0.1f : 0.8f, layer.last ? 0.3f : 1.2f);
  }
  std::vector<float> Uniform(int64_t count, float low, float high) {
    std::uniform_real_distribution<float> uniform(low, high);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = uniform(rng_);
    return values;
  }

 private:
  std::mt19937 rng_;
};

// The network by the operations of `net`, which has a type Value and
//   Conv(Value, ConvLayer)  with batch norm; 0 pads (side - 1) / 2 before and after
//   Relu(Value), Add(Value, Value)
//   MaxPool(Value)          3x3 by steps of 2, the last windows cut short
//   Dense(Value, in, out)   of the mean over the pixels, with a bias
template <typename Net>
typename Net::Value BuildResnet50(Net& net, typename Net::Value image) {
  int index = 0;
  const auto conv = [&](typename Net::Value x, int64_t in, int64_t out, int64_t side, int64_t stride,
                        bool last = false) {
    return net.Conv(x, ConvLayer{index++, in, out, side, stride, last});
  };
  auto x = net.MaxPool(net.Relu(conv(image, 3, 64, 7, 2)));
  int64_t channels = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = 64 << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      auto y = net.Relu(conv(x, channels, width, 1, 1));
      y = net.Relu(conv(y, width, width, 3, stride));
      y = conv(y, width, 4 * width, 1, 1, true);
      if (block == 0) x = conv(x, channels, 4 * width, 1, stride);
      channels = 4 * width;
      x = net.Relu(net.Add(y, x));
    }
  }
  return net.Dense(x, channels, kClasses);
}

inline std::vector<float> RandomImages(int64_t batch) {
  return LayerWeights(1000).Uniform(batch * kImageSide * kImageSide * 3, -1, 1);
}

}  // namespace millrace::bench
