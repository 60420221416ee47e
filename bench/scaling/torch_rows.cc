// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/graph/libtorch_resnet50.h"
#include "bench/scaling/rows.h"
#include "bench/train/libtorch_step.h"

namespace millrace::bench {
namespace {

template <typename Fn>
Step Inference(int threads, const Fn& fn) {
  return [threads, fn] {
    const c10::InferenceMode inference;
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
    fn();
  };
}

Step Digits(TorchModel model, int threads) {
  TorchStepOptions options;
  options.model = model;
  options.batch = 100;
  options.threads = threads;
  const auto step = std::make_shared<LibtorchStep>(options);
  return [step] { step->RunStep(); };
}

Step Lstm(const LstmSize& size, bool train, int threads) {
  auto lstm = std::make_shared<torch::nn::LSTMImpl>(torch::nn::LSTMOptions(size.inputs, size.units));
  const torch::Tensor x = torch::rand({size.time, size.batch, size.inputs});
  if (!train) return Inference(threads, [lstm, x] { lstm->forward(x); });
  const auto sgd = std::make_shared<torch::optim::SGD>(lstm->parameters(), 0.0001);
  return [lstm, x, sgd, threads] {
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
    sgd->zero_grad();
    std::get<0>(lstm->forward(x)).square().sum().backward();
    sgd->step();
  };
}

Step WordVectors(int64_t words, int threads) {
  const auto table = [words] {
    return torch::nn::Embedding(torch::nn::EmbeddingOptions(words, kWordDepth).sparse(true));
  };
  auto in = table(), out = table();
  std::vector<torch::Tensor> parameters{in->weight, out->weight};
  const auto sgd = std::make_shared<torch::optim::SGD>(parameters, 0.01);
  const torch::Tensor centres = torch::randint(words, {kWordBatch}),
                      near = torch::randint(words, {kWordBatch}),
                      others = torch::randint(words, {kNegatives});
  return [=]() mutable {
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
    sgd->zero_grad();
    const torch::Tensor centre = in->forward(centres);
    const torch::Tensor right = (centre * out->forward(near)).sum(1);
    const torch::Tensor wrong = centre.matmul(out->forward(others).t());
    (torch::softplus(-right).sum() + torch::softplus(wrong).sum()).backward();
    sgd->step();
  };
}

// A convolution and its batch norm.
struct TorchConvImpl : torch::nn::Module {
  TorchConvImpl(int64_t in, int64_t out, int64_t size, int64_t stride)
      : conv(torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false)),
        norm(out) {
    register_module("conv", conv);
    register_module("norm", norm);
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(x)); }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
};
TORCH_MODULE(TorchConv);

struct TorchResnet : torch::nn::Module {
  struct Block {
    TorchConv inner, outer, around;
  };
  TorchResnet() : first(3, 16, 3, 1), last(64, kResnetClasses) {
    register_module("first", first);
    register_module("last", last);
    int64_t in = 16;
    for (const int64_t filters : {16, 32, 64}) {
      for (int block = 0; block < 3; ++block) {
        const int64_t stride = block == 0 && filters > 16 ? 2 : 1;
        const std::string name = std::to_string(blocks.size());
        Block b{TorchConv(in, filters, 3, stride), TorchConv(filters, filters, 3, 1), nullptr};
        register_module("inner" + name, b.inner);
        register_module("outer" + name, b.outer);
        if (stride != 1) b.around = register_module("around" + name, TorchConv(in, filters, 1, stride));
        blocks.push_back(b);
        in = filters;
      }
    }
  }
  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = torch::relu(first(images));
    for (Block& b : blocks) {
      const torch::Tensor around = b.around.is_empty() ? x : b.around(x);
      x = torch::relu(b.outer(torch::relu(b.inner(x))) + around);
    }
    return last(x.mean({2, 3}));
  }
  TorchConv first;
  torch::nn::Linear last;
  std::vector<Block> blocks;
};

// In channels last, which is the faster layout for training on the processor.
Step SmallResnet(int threads) {
  const auto net = std::make_shared<TorchResnet>();
  const auto format = torch::MemoryFormat::ChannelsLast;
  net->train();
  for (torch::Tensor& p : net->parameters()) {
    if (p.dim() == 4) p.set_data(p.data().contiguous(format));
  }
  const torch::Tensor x = torch::rand({kResnetBatch, 3, kResnetSide, kResnetSide}).contiguous(format);
  const torch::Tensor labels = torch::randint(kResnetClasses, {kResnetBatch});
  const auto sgd =
      std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  return [=] {
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
    sgd->zero_grad();
    torch::nn::functional::cross_entropy(net->forward(x), labels).backward();
    sgd->step();
  };
}

Step Transformer(int threads) {
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(kTransformerWidth, kTransformerHeads)
          .dim_feedforward(4 * kTransformerWidth)
          .dropout(0)
          .activation(torch::kGELU));
  layer->train();
  const torch::Tensor x = torch::rand({kTransformerTokens, kTransformerBatch, kTransformerWidth});
  const auto sgd = std::make_shared<torch::optim::SGD>(layer->parameters(), 1e-6);
  return [=]() mutable {
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
    sgd->zero_grad();
    layer->forward(x).square().sum().backward();
    sgd->step();
  };
}

Step Branches(int threads) {
  const torch::Tensor x = torch::rand({kBranchRows, kBranchWidth});
  std::vector<torch::Tensor> weights;
  for (int64_t i = 0; i < kBranches * kBranchDepth; ++i) {
    weights.push_back(torch::rand({kBranchWidth, kBranchWidth}) * 0.1);
  }
  return Inference(threads, [x, weights] {
    torch::Tensor sum;
    for (int64_t b = 0; b < kBranches; ++b) {
      torch::Tensor y = x;
      for (int64_t i = 0; i < kBranchDepth; ++i) y = torch::matmul(y, weights[b * kBranchDepth + i]).tanh_();
      sum = b == 0 ? y : sum.add_(y);
    }
  });
}

}  // namespace

Step MakeTorchStep(std::string_view row, int threads) {
  at::set_num_threads(threads);
  torch::manual_seed(1);
  const torch::Tensor x = torch::rand({kMatrixSide, kMatrixSide}) * 6 - 3;
  if (row == "digits_mlp") return Digits(TorchModel::kMlp, threads);
  if (row == "digits_conv") return Digits(TorchModel::kConv, threads);
  if (row == "digits_conv_dropout") return Digits(TorchModel::kConvLarge, threads);
  if (row == "resnet50") {
    const auto net = std::make_shared<LibtorchResnet50>(LibtorchForm::kFrozen, 1, threads);
    return [net] { net->Run(); };
  }
  if (row == "lstm_train") return Lstm(kSmallLstm, true, threads);
  if (row == "lstm_large") return Lstm(kLargeLstm, false, threads);
  if (row == "lstm_large_train") return Lstm(kLargeLstm, true, threads);
  if (row == "small_resnet_train") return SmallResnet(threads);
  if (row == "transformer_train") return Transformer(threads);
  if (row == "language_lstm_train") return Lstm(kLanguageLstm, true, threads);
  if (row == "word_vectors") return WordVectors(kWords, threads);
  if (row == "many_word_vectors") return WordVectors(kManyWords, threads);
  if (row == "branches") return Branches(threads);
  if (row == "transpose") return Inference(threads, [x] { x.t().contiguous(); });
  if (row == "tanh") return Inference(threads, [x] { torch::tanh(x); });
  if (row == "sigmoid") return Inference(threads, [x] { torch::sigmoid(x); });
  return nullptr;
}

}  // namespace millrace::bench
