// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrix products, convolutions and pools of kernels/cpu/contract beside oneDNN and plain loops. The argument
// is the number of threads; counters are GFLOP/s (a multiply-add is two) and, for pools, GB/s read and
// written.
//
//   peak/flops             multiply-adds in registers: the limit
//   gemm/MxNxK[_tn|_nt]    a product; _tn: A is stored transposed, _nt: B is
//   conv_fwd|conv_dx|conv_dw/SHAPE   a convolution, its gradient for the image and for the filter; NHWC.
//       digits{1,2,3} and dropout{1,2,3} are the layers of examples/mnist's conv and conv_dropout with batch
//       100, the others layers of ResNet-50, batch 8 (stem: 4)
//   conv_fwd_packed/SHAPE  with a filter that was packed beforehand, where ConvPlan finds that worth it
//   gemm_bf16|gemm_mixed/MxNxK, gemm_mixed_packed/MxNxK, conv_fwd_mixed|conv_dx_mixed|conv_dw_mixed/SHAPE
//       of bfloat16, and of floats that are rounded to it, where the processor has instructions for that;
//       _packed: B was packed beforehand
//   max_pool|avg_pool/SHAPE, max_pool_grad|avg_pool_grad/SHAPE
//
// Each with the suffix _onednn where libdnnl-dev is installed: tensors in their layout, filters converted to
// oneDNN's layout each time. conv_*_blocked: oneDNN with the layouts that it prefers, without the time of
// converting tensors. max_pool_grad_onednn is given the positions of the maxima, max_pool_grad_onednn_fresh
// finds them itself, as the engine does. Each product and convolution with _loop: plain loops, one thread.
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "bench/kernels/limits.h"
#include "bench/kernels/plain_loops.h"
#include "kernels/cpu/contract/bf16.h"
#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/contract/pool.h"
#ifdef MR_HAVE_ONEDNN
#include "bench/kernels/onednn_baseline.h"
#endif

namespace millrace::bench {
namespace {

constexpr int kMaxThreads = 2;

template <typename Fn>
void Loop(benchmark::State& state, const Fn& fn) {
  fn();
  for (auto _ : state) {
    fn();
    benchmark::ClobberMemory();
  }
}

void Peak(benchmark::State& state, int threads) {
  PoolParallel parallel(threads);
  constexpr int64_t kUnits = 16, kRounds = 20000;
  double flops = 0;
  Loop(state, [&] {
    parallel.For(kUnits, 100000, [&](int64_t begin, int64_t end) {
      double done = 0;
      for (int64_t i = begin; i < end; ++i) done += PeakFlops(kRounds);
      benchmark::DoNotOptimize(done);
    });
  });
  flops = PeakFlops(1) * kRounds * kUnits;
  CountRate(state, "GFLOP/s", flops);
}

void RegisterGemm(int64_t m, int64_t n, int64_t k, bool trans_a = false, bool trans_b = false) {
  const cpu::GemmShape s{.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b};
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const std::string shape = "/" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                            (trans_a   ? "_tn"
                             : trans_b ? "_nt"
                                       : "");
  const auto with = [s, flops](const auto& make) {
    return [s, flops, make](benchmark::State& state, int threads) {
      const std::vector<float> a = RandomFloats(s.m * s.k), b = RandomFloats(s.k * s.n);
      std::vector<float> c(static_cast<size_t>(s.m * s.n));
      make(state, threads, a.data(), b.data(), c.data());
      CountRate(state, "GFLOP/s", flops);
    };
  };
  RegisterThreads("gemm" + shape,
                  with([s](benchmark::State& state, int threads, const float* a, const float* b, float* c) {
                    PoolParallel parallel(threads);
                    Loop(state, [&] { cpu::Gemm(s, a, b, c, parallel); });
                  }),
                  kMaxThreads);
#ifdef MR_HAVE_ONEDNN
  RegisterThreads("gemm_onednn" + shape,
                  with([s](benchmark::State& state, int threads, const float* a, const float* b, float* c) {
                    SetOneDnnThreads(threads);
                    const auto op = OneDnnGemm(s, a, b, c);
                    Loop(state, [&] { op->Run(); });
                  }),
                  kMaxThreads);
#endif
  if (trans_a || trans_b) return;
  RegisterThreads("gemm_loop" + shape,
                  with([s](benchmark::State& state, int, const float* a, const float* b, float* c) {
                    Loop(state, [&] { LoopGemm(s, a, b, c); });
                  }),
                  1);
}

struct ConvCase {
  const char* name;
  cpu::ConvParams params;
};

// SAME padding.
cpu::ConvParams Same(int64_t batch, int64_t side, int64_t in_c, int64_t filter, int64_t out_c,
                     int64_t stride) {
  cpu::ConvParams p{
      .batch = batch, .in_h = side, .in_w = side, .in_c = in_c, .filter_h = filter, .filter_w = filter};
  p.out_c = out_c;
  p.stride_h = p.stride_w = stride;
  p.out_h = p.out_w = (side + stride - 1) / stride;
  p.pad_top = p.pad_left = std::max<int64_t>((p.out_h - 1) * stride + filter - side, 0) / 2;
  return p;
}

std::vector<ConvCase> ConvCases() {
  return {
      {"digits1", Same(100, 28, 1, 5, 4, 1)},
      {"digits2", Same(100, 28, 4, 5, 8, 2)},
      {"digits3", Same(100, 14, 8, 4, 12, 2)},
      {"dropout1", Same(100, 28, 1, 6, 6, 1)},
      {"dropout2", Same(100, 28, 6, 5, 12, 2)},
      {"dropout3", Same(100, 14, 12, 4, 24, 2)},
      {"stem", Same(4, 224, 3, 7, 64, 2)},
      {"56x56_3x3_64", Same(8, 56, 64, 3, 64, 1)},
      {"28x28_3x3_128", Same(8, 28, 128, 3, 128, 1)},
      {"14x14_3x3_256", Same(8, 14, 256, 3, 256, 1)},
      {"7x7_3x3_512", Same(8, 7, 512, 3, 512, 1)},
      {"56x56_1x1_64_256", Same(8, 56, 64, 1, 256, 1)},
      {"28x28_1x1_512_128", Same(8, 28, 512, 1, 128, 1)},
      {"56x56_1x1s2_256_512", Same(8, 56, 256, 1, 512, 2)},
  };
}

struct ConvData {
  explicit ConvData(const cpu::ConvParams& p)
      : image(RandomFloats(p.batch * p.in_h * p.in_w * p.in_c)),
        filter(RandomFloats(p.filter_h * p.filter_w * p.in_c * p.out_c)),
        output(RandomFloats(p.batch * p.out_h * p.out_w * p.out_c)) {}
  std::vector<float> image, filter, output;
};

using ConvFn = void (*)(const cpu::ConvPlan& plan, ConvData& data, cpu::Parallel& parallel);
using LoopFn = void (*)(const cpu::ConvParams& params, ConvData& data);

struct ConvWay {
  const char* name;
  ConvFn run;
  LoopFn loop;
#ifdef MR_HAVE_ONEDNN
  ConvPass baseline;
#endif
};

#ifdef MR_HAVE_ONEDNN
#define MR_BASELINE(pass) , pass
#else
#define MR_BASELINE(pass)
#endif

const ConvWay kConvWays[] = {
    {"conv_fwd",
     [](const cpu::ConvPlan& plan, ConvData& d, cpu::Parallel& parallel) {
       plan.Forward(d.image.data(), d.filter.data(), d.output.data(), parallel);
     },
     [](const cpu::ConvParams& p, ConvData& d) {
       LoopConv(p, d.image.data(), d.filter.data(), d.output.data());
     } MR_BASELINE(ConvPass::kForward)},
    {"conv_dx",
     [](const cpu::ConvPlan& plan, ConvData& d, cpu::Parallel& parallel) {
       plan.BackpropInput(d.filter.data(), d.output.data(), d.image.data(), parallel);
     },
     [](const cpu::ConvParams& p, ConvData& d) {
       LoopConvBackpropInput(p, d.filter.data(), d.output.data(), d.image.data());
     } MR_BASELINE(ConvPass::kBackpropInput)},
    {"conv_dw",
     [](const cpu::ConvPlan& plan, ConvData& d, cpu::Parallel& parallel) {
       plan.BackpropFilter(d.image.data(), d.output.data(), d.filter.data(), parallel);
     },
     [](const cpu::ConvParams& p, ConvData& d) {
       LoopConvBackpropFilter(p, d.image.data(), d.output.data(), d.filter.data());
     } MR_BASELINE(ConvPass::kBackpropFilter)},
};

// The filter is packed in the order of the inner loops beforehand, as for weights that do not change.
void RegisterPackedConv(const ConvCase& c) {
  const cpu::ConvParams p = c.params;
  if (!cpu::ConvPlan(p).packing().has_value()) return;
  const double flops = 2.0 * static_cast<double>(p.batch * p.out_h * p.out_w * p.out_c) *
                       static_cast<double>(p.filter_h * p.filter_w * p.in_c);
  RegisterThreads(
      std::string("conv_fwd_packed/") + c.name,
      [=](benchmark::State& state, int threads) {
        ConvData data(p);
        const cpu::ConvPlan plan(p);
        const cpu::PackedShape shape = *plan.packing();
        std::vector<float> packed(static_cast<size_t>(cpu::PackedElements<float>(shape)));
        cpu::PackMatrix(shape, data.filter.data(), p.out_c, false, packed.data());
        PoolParallel parallel(threads);
        Loop(state, [&] {
          plan.Forward(data.image.data(), data.filter.data(), data.output.data(), parallel, {},
                       packed.data());
        });
        CountRate(state, "GFLOP/s", flops);
      },
      kMaxThreads);
}

void RegisterConv(const ConvWay& way, const ConvCase& c) {
  const cpu::ConvParams p = c.params;
  // Products with padding are counted, as usual.
  const double flops = 2.0 * static_cast<double>(p.batch * p.out_h * p.out_w * p.out_c) *
                       static_cast<double>(p.filter_h * p.filter_w * p.in_c);
  const std::string name = way.name, shape = std::string("/") + c.name;
  RegisterThreads(
      name + shape,
      [=](benchmark::State& state, int threads) {
        ConvData data(p);
        const cpu::ConvPlan plan(p);
        PoolParallel parallel(threads);
        Loop(state, [&] { way.run(plan, data, parallel); });
        CountRate(state, "GFLOP/s", flops);
      },
      kMaxThreads);
#ifdef MR_HAVE_ONEDNN
  for (const bool blocked : {false, true}) {
    RegisterThreads(
        name + (blocked ? "_blocked" : "_onednn") + shape,
        [=](benchmark::State& state, int threads) {
          ConvData data(p);
          SetOneDnnThreads(threads);
          const auto op = OneDnnConv(way.baseline, p,
                                     {data.image.data(), data.filter.data(), data.output.data()}, blocked);
          Loop(state, [&] { op->Run(); });
          CountRate(state, "GFLOP/s", flops);
        },
        kMaxThreads);
  }
#endif
  RegisterThreads(
      name + "_loop" + shape,
      [=](benchmark::State& state, int) {
        ConvData data(p);
        Loop(state, [&] { way.loop(p, data); });
        CountRate(state, "GFLOP/s", flops);
      },
      1);
}

void RegisterBf16Gemm(int64_t m, int64_t n, int64_t k) {
  const cpu::GemmShape s{.m = m, .n = n, .k = k};
  const std::string shape = "/" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  RegisterThreads(
      "gemm_bf16" + shape,
      [=](benchmark::State& state, int threads) {
        const std::vector<uint16_t> a(static_cast<size_t>(m * k), 0x3f80),
            b(static_cast<size_t>(k * n), 0x3f80);
        std::vector<uint16_t> c(static_cast<size_t>(m * n));
        PoolParallel parallel(threads);
        Loop(state, [&] { cpu::GemmBf16(s, a.data(), b.data(), c.data(), parallel); });
        CountRate(state, "GFLOP/s", flops);
      },
      kMaxThreads);
  for (const bool packed : {false, true}) {
    RegisterThreads(
        std::string(packed ? "gemm_mixed_packed" : "gemm_mixed") + shape,
        [=](benchmark::State& state, int threads) {
          const std::vector<float> a = RandomFloats(m * k), b = RandomFloats(k * n);
          std::vector<float> c(static_cast<size_t>(m * n));
          PoolParallel parallel(threads);
          // Aligned to 64 bytes.
          std::vector<uint16_t> room(static_cast<size_t>(cpu::PackedBf16Elements(k, n) + 32));
          auto* const order =
              reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64);
          cpu::PackBf16(k, n, b.data(), n, false, order, parallel);
          Loop(state, [&] {
            cpu::GemmBf16(s, a.data(), b.data(), c.data(), parallel, {}, packed ? order : nullptr);
          });
          CountRate(state, "GFLOP/s", flops);
        },
        kMaxThreads);
  }
}

void RegisterBf16Conv(const ConvCase& c) {
  using Run = bool (*)(const cpu::ConvParams& p, ConvData& d, cpu::Parallel& parallel);
  static constexpr std::pair<const char*, Run> kWays[] = {
      {"conv_fwd_mixed/",
       [](const cpu::ConvParams& p, ConvData& d, cpu::Parallel& parallel) {
         return cpu::ConvBf16(p, d.image.data(), d.filter.data(), d.output.data(), parallel);
       }},
      {"conv_dx_mixed/",
       [](const cpu::ConvParams& p, ConvData& d, cpu::Parallel& parallel) {
         return cpu::ConvBackpropInputBf16(p, d.filter.data(), d.output.data(), d.image.data(), parallel);
       }},
      {"conv_dw_mixed/", [](const cpu::ConvParams& p, ConvData& d, cpu::Parallel& parallel) {
         return cpu::ConvBackpropFilterBf16(p, d.image.data(), d.output.data(), d.filter.data(), parallel);
       }}};
  for (const auto& [name, run] : kWays) {
    const cpu::ConvParams p = c.params;
    RegisterThreads(
        std::string(name) + c.name,
        [p, run = run](benchmark::State& state, int threads) {
          ConvData data(p);
          PoolParallel parallel(threads);
          if (!run(p, data, parallel)) {
            state.SkipWithError("is done with floats");
            return;
          }
          Loop(state, [&] { run(p, data, parallel); });
          CountRate(state, "GFLOP/s",
                    2.0 * static_cast<double>(p.batch * p.out_h * p.out_w * p.out_c) *
                        static_cast<double>(p.filter_h * p.filter_w * p.in_c));
        },
        kMaxThreads);
  }
}

struct PoolCase {
  const char* name;
  cpu::PoolParams params;
};

// SAME padding.
cpu::PoolParams SamePool(int64_t batch, int64_t side, int64_t channels, int64_t window, int64_t stride) {
  cpu::PoolParams p{.batch = batch, .in_h = side, .in_w = side, .channels = channels};
  p.window_h = p.window_w = window;
  p.stride_h = p.stride_w = stride;
  p.out_h = p.out_w = (side + stride - 1) / stride;
  p.pad_top = p.pad_left = std::max<int64_t>((p.out_h - 1) * stride + window - side, 0) / 2;
  return p;
}

using PoolFn = void (*)(const cpu::PoolParams& p, float* image, float* output, const float* seen,
                        cpu::Parallel& parallel);

struct PoolWay {
  const char* name;
  PoolFn run;
#ifdef MR_HAVE_ONEDNN
  PoolPass baseline;
#endif
};

const PoolWay kPoolWays[] = {
    {"max_pool",
     [](const cpu::PoolParams& p, float* image, float* output, const float*, cpu::Parallel& parallel) {
       cpu::MaxPool(p, image, output, parallel);
     } MR_BASELINE(PoolPass::kMax)},
    {"max_pool_grad",
     [](const cpu::PoolParams& p, float* image, float* output, const float* seen, cpu::Parallel& parallel) {
       cpu::MaxPoolGrad(p, seen, output, image, parallel);
     } MR_BASELINE(PoolPass::kMaxGrad)},
    {"avg_pool",
     [](const cpu::PoolParams& p, float* image, float* output, const float*, cpu::Parallel& parallel) {
       cpu::AvgPool(p, image, output, parallel);
     } MR_BASELINE(PoolPass::kAvg)},
    {"avg_pool_grad",
     [](const cpu::PoolParams& p, float* image, float* output, const float*, cpu::Parallel& parallel) {
       cpu::AvgPoolGrad(p, output, image, parallel);
     } MR_BASELINE(PoolPass::kAvgGrad)},
};

void RegisterPool(const PoolWay& way, const PoolCase& c) {
  const cpu::PoolParams p = c.params;
  const int64_t in = p.batch * p.in_h * p.in_w * p.channels, out = p.batch * p.out_h * p.out_w * p.channels;
  const double bytes = static_cast<double>(in + out) * sizeof(float);
  const std::string name = way.name, shape = std::string("/") + c.name;
  RegisterThreads(
      name + shape,
      [=](benchmark::State& state, int threads) {
        std::vector<float> image = RandomFloats(in), output = RandomFloats(out);
        const std::vector<float> seen = image;
        PoolParallel parallel(threads);
        Loop(state, [&] { way.run(p, image.data(), output.data(), seen.data(), parallel); });
        CountRate(state, "GB/s", bytes);
      },
      kMaxThreads);
#ifdef MR_HAVE_ONEDNN
  const auto baseline = [=](const char* suffix, PoolPass pass) {
    RegisterThreads(
        name + suffix + shape,
        [=](benchmark::State& state, int threads) {
          std::vector<float> image = RandomFloats(in), output = RandomFloats(out);
          SetOneDnnThreads(threads);
          const auto op = OneDnnPool(pass, p, image.data(), output.data());
          Loop(state, [&] { op->Run(); });
          CountRate(state, "GB/s", bytes);
        },
        kMaxThreads);
  };
  baseline("_onednn", way.baseline);
  if (way.baseline == PoolPass::kMaxGrad) baseline("_onednn_fresh", PoolPass::kMaxBoth);
#endif
}

void RegisterAll() {
  RegisterThreads("peak/flops", Peak, kMaxThreads);
  for (int64_t n : {8, 32, 64, 128, 256, 512, 1024}) RegisterGemm(n, n, n);
  // A vector times a matrix, few rows, few columns, little depth, much depth, the layers of a digit model.
  RegisterGemm(1, 1024, 1024);
  RegisterGemm(32, 1024, 1024);
  RegisterGemm(1024, 10, 1024);
  RegisterGemm(1024, 1024, 16);
  RegisterGemm(64, 64, 8192);
  RegisterGemm(100, 200, 784);
  RegisterGemm(784, 200, 100, true);
  RegisterGemm(100, 200, 100, false, true);
  RegisterGemm(512, 512, 512, true);
  RegisterGemm(512, 512, 512, false, true);
  if (cpu::ActiveBf16Unit() != cpu::Bf16Unit::kNone) {
    for (int64_t n : {64, 256, 512, 1024, 2048}) RegisterBf16Gemm(n, n, n);
    RegisterBf16Gemm(32, 1024, 1024);
    RegisterBf16Gemm(100, 200, 784);
    for (const ConvCase& c : ConvCases()) RegisterBf16Conv(c);
  }
  for (const ConvCase& c : ConvCases()) {
    for (const ConvWay& way : kConvWays) RegisterConv(way, c);
    RegisterPackedConv(c);
  }
  for (const PoolCase& c : std::vector<PoolCase>{{"28x28x16_2x2", SamePool(100, 28, 16, 2, 2)},
                                                 {"112x112x64_3x3s2", SamePool(8, 112, 64, 3, 2)},
                                                 {"7x7x2048_7x7", SamePool(8, 7, 2048, 7, 7)}}) {
    for (const PoolWay& way : kPoolWays) RegisterPool(way, c);
  }
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  millrace::bench::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
