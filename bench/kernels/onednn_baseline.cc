// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/onednn_baseline.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace::bench {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc Describe(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

// Primitives that are executed in sequence.
class Sequence final : public BaselineOp {
 public:
  Sequence() : stream_(Engine()) {}
  void Add(const dnnl::primitive& primitive, Arguments arguments) {
    steps_.emplace_back(primitive, std::move(arguments));
  }
  void Run() override {
    for (const auto& [primitive, arguments] : steps_) primitive.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  dnnl::stream stream_;
  std::vector<std::pair<dnnl::primitive, Arguments>> steps_;
};

class GemmOp final : public BaselineOp {
 public:
  GemmOp(const cpu::GemmShape& shape, const float* a, const float* b, float* c)
      : s_(shape), a_(a), b_(b), c_(c) {}
  void Run() override {
    dnnl::sgemm(s_.trans_a ? 'T' : 'N', s_.trans_b ? 'T' : 'N', s_.m, s_.n, s_.k, 1.0f, a_,
                s_.trans_a ? s_.m : s_.k, b_, s_.trans_b ? s_.k : s_.n, 0.0f, c_, s_.n);
  }

 private:
  const cpu::GemmShape s_;
  const float* a_;
  const float* b_;
  float* c_;
};

// The memory of one convolution, in the layout that oneDNN prefers.
struct ConvMemory {
  memory image, filter, output;
};

memory Own(const memory::desc& desc) {
  memory own(desc, Engine());
  float* const data = static_cast<float*>(own.get_data_handle());
  std::fill(data, data + desc.get_size() / sizeof(float), 0.5f);
  return own;
}

}  // namespace

void SetOneDnnThreads(int threads) { omp_set_num_threads(threads); }

std::unique_ptr<BaselineOp> OneDnnGemm(const cpu::GemmShape& shape, const float* a, const float* b,
                                       float* c) {
  return std::make_unique<GemmOp>(shape, a, b, c);
}

std::unique_ptr<BaselineOp> OneDnnConv(ConvPass pass, const cpu::ConvParams& p, const ConvTensors& tensors,
                                       bool blocked) {
  const memory::dims image{p.batch, p.in_c, p.in_h, p.in_w}, output{p.batch, p.out_c, p.out_h, p.out_w};
  const memory::dims filter{p.out_c, p.in_c, p.filter_h, p.filter_w};
  const memory::dims strides{p.stride_h, p.stride_w}, before{p.pad_top, p.pad_left};
  const memory::dims after{(p.out_h - 1) * p.stride_h + p.filter_h - p.in_h - p.pad_top,
                           (p.out_w - 1) * p.stride_w + p.filter_w - p.in_w - p.pad_left};
  const Tag tag = blocked ? Tag::any : Tag::nhwc;
  const auto x = Describe(image, tag), w = Describe(filter, Tag::any), y = Describe(output, tag);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, x, w, y, strides, before, after}, Engine());
  const auto use = [&](const memory::desc& desc, float* data) {
    return blocked ? Own(desc) : memory(desc, Engine(), data);
  };
  const memory hwio(Describe(filter, Tag::hwio), Engine(), tensors.filter);
  auto sequence = std::make_unique<Sequence>();
  const auto convert = [&](const memory& from, const memory& to) {
    if (!blocked && from.get_desc() != to.get_desc()) {
      sequence->Add(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    }
  };
  if (pass == ConvPass::kForward) {
    const memory weights = Own(forward.weights_desc());
    convert(hwio, weights);
    sequence->Add(dnnl::convolution_forward(forward),
                  {{DNNL_ARG_SRC, use(forward.src_desc(), tensors.image)},
                   {DNNL_ARG_WEIGHTS, weights},
                   {DNNL_ARG_DST, use(forward.dst_desc(), tensors.output)}});
  } else if (pass == ConvPass::kBackpropInput) {
    const dnnl::convolution_backward_data::primitive_desc backward(
        {algorithm, x, w, y, strides, before, after}, Engine(), forward);
    const memory weights = Own(backward.weights_desc());
    convert(hwio, weights);
    sequence->Add(dnnl::convolution_backward_data(backward),
                  {{DNNL_ARG_DIFF_DST, use(backward.diff_dst_desc(), tensors.output)},
                   {DNNL_ARG_WEIGHTS, weights},
                   {DNNL_ARG_DIFF_SRC, use(backward.diff_src_desc(), tensors.image)}});
  } else {
    const dnnl::convolution_backward_weights::primitive_desc backward(
        {algorithm, x, w, y, strides, before, after}, Engine(), forward);
    const memory gradient = Own(backward.diff_weights_desc());
    sequence->Add(dnnl::convolution_backward_weights(backward),
                  {{DNNL_ARG_SRC, use(backward.src_desc(), tensors.image)},
                   {DNNL_ARG_DIFF_DST, use(backward.diff_dst_desc(), tensors.output)},
                   {DNNL_ARG_DIFF_WEIGHTS, gradient}});
    convert(gradient, hwio);
  }
  return sequence;
}

std::unique_ptr<BaselineOp> OneDnnPool(PoolPass pass, const cpu::PoolParams& p, float* image, float* output) {
  const bool max = pass != PoolPass::kAvg && pass != PoolPass::kAvgGrad;
  const bool forward_only = pass == PoolPass::kMax || pass == PoolPass::kAvg;
  const auto algorithm = max ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_exclude_padding;
  const auto x = Describe({p.batch, p.channels, p.in_h, p.in_w}, Tag::nhwc);
  const auto y = Describe({p.batch, p.channels, p.out_h, p.out_w}, Tag::nhwc);
  const memory::dims strides{p.stride_h, p.stride_w}, window{p.window_h, p.window_w};
  const memory::dims before{p.pad_top, p.pad_left};
  const memory::dims after{(p.out_h - 1) * p.stride_h + p.window_h - p.in_h - p.pad_top,
                           (p.out_w - 1) * p.stride_w + p.window_w - p.in_w - p.pad_left};
  const auto kind = forward_only ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  const dnnl::pooling_forward::primitive_desc forward({kind, algorithm, x, y, strides, window, before, after},
                                                      Engine());
  const memory in(x, Engine(), image), out(y, Engine(), output);
  auto sequence = std::make_unique<Sequence>();
  if (forward_only) {
    sequence->Add(dnnl::pooling_forward(forward), {{DNNL_ARG_SRC, in}, {DNNL_ARG_DST, out}});
    return sequence;
  }
  const memory positions(forward.workspace_desc(), Engine());
  Sequence first;
  (pass == PoolPass::kMaxBoth ? *sequence : first)
      .Add(dnnl::pooling_forward(forward),
           {{DNNL_ARG_SRC, in}, {DNNL_ARG_DST, Own(y)}, {DNNL_ARG_WORKSPACE, positions}});
  first.Run();
  const dnnl::pooling_backward::primitive_desc backward({algorithm, x, y, strides, window, before, after},
                                                        Engine(), forward);
  sequence->Add(dnnl::pooling_backward(backward),
                {{DNNL_ARG_DIFF_DST, out}, {DNNL_ARG_DIFF_SRC, Own(x)}, {DNNL_ARG_WORKSPACE, positions}});
  return sequence;
}

}  // namespace millrace::bench
