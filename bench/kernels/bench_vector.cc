// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Element-wise functions, reductions, moves and updates of kernels/cpu/vector beside plain loops (suffix
// _loop, one thread). The first argument is the number of elements (floats), the second one the number of
// threads; the counter is GB/s read and written. 4,096 elements lie in the first-level cache, 65,536 in the
// second, 16,777,216 in memory.
//
//   limit/copy (memcpy), limit/read      the speed of the memory
//   exp, tanh, sigmoid, rsqrt, add (two arrays), sum, softmax (rows of 1,000), transpose (square), adam
//   (four arrays)
//
// The first four also by Eigen (suffix _eigen), which TensorFlow's kernels are built on, on processors with
// AVX-512.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "bench/kernels/eigen_baseline.h"
#include "bench/kernels/limits.h"
#include "bench/kernels/plain_loops.h"
#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/vector/broadcast.h"
#include "kernels/cpu/vector/reduce.h"
#include "kernels/cpu/vector/softmax.h"
#include "kernels/cpu/vector/transpose.h"
#include "kernels/cpu/vector/unary.h"
#include "kernels/cpu/vector/update.h"

namespace millrace::bench {
namespace {

constexpr int kMaxThreads = 2;
constexpr int64_t kColumns = 1000;

// Random floats, aligned to a cache line like tensors.
class Floats {
 public:
  explicit Floats(int64_t count) : room_(RandomFloats(count + kLine)) {}
  float* data() {
    const auto at = reinterpret_cast<uintptr_t>(room_.data());
    return room_.data() + (64 - at % 64) % 64 / sizeof(float);
  }

 private:
  static constexpr int64_t kLine = 16;
  std::vector<float> room_;
};

struct Arrays {
  explicit Arrays(int64_t count) : n(count), x(count), a(count), b(count), y(count) {}
  int64_t n;
  Floats x, a, b, y;
};

int64_t Side(int64_t n) { return static_cast<int64_t>(std::sqrt(static_cast<double>(n))); }

using Fn = void (*)(Arrays& t, cpu::Parallel& parallel);

struct Case {
  const char* name;
  int arrays;  // read and written, of n floats
  bool threads;
  Fn run;
};

template <cpu::UnaryOp kOp>
void Unary(Arrays& t, cpu::Parallel& parallel) {
  cpu::RunUnary(cpu::FindUnary(kOp, DataType::kFloat), t.x.data(), sizeof(float), t.y.data(), sizeof(float),
                t.n, cpu::UnaryCostNs(kOp, DataType::kFloat), parallel);
}

void Add(Arrays& t, cpu::Parallel& parallel) {
  const int64_t shape[] = {t.n};
  const auto plan = cpu::Broadcast::Make(shape, shape);
  plan->Run(*cpu::FindBinary(cpu::BinaryOp::kAdd, DataType::kFloat), t.x.data(), t.a.data(), sizeof(float),
            t.y.data(), sizeof(float), cpu::BinaryCostNs(cpu::BinaryOp::kAdd, DataType::kFloat), parallel);
}

void Sum(Arrays& t, cpu::Parallel& parallel) {
  cpu::Reduce(cpu::ReduceOp::kSum, DataType::kFloat, {.outer = 1, .reduce = t.n}, t.x.data(), t.y.data(),
              parallel);
}

void TransposeSquare(Arrays& t, cpu::Parallel& parallel) {
  const int64_t dims[] = {Side(t.n), Side(t.n)};
  const int perm[] = {1, 0};
  cpu::Transpose(t.x.data(), dims, perm, sizeof(float), t.y.data(), parallel);
}

void Adam(Arrays& t, cpu::Parallel& parallel) {
  const float beta1 = 0.9f, beta2 = 0.999f, rate = 0.001f, epsilon = 1e-8f;
  const cpu::UpdateArgs args{.rule = cpu::UpdateRule::kAdam,
                             .type = DataType::kFloat,
                             .slots = {t.y.data(), t.a.data(), t.b.data()},
                             .grad = t.x.data(),
                             .scalars = {&beta1, &beta2, &rate, &beta1, &beta2, &epsilon}};
  cpu::Update(args, t.n, parallel);
}

void Read(Arrays& t, cpu::Parallel& parallel) {
  constexpr int64_t kBlock = 1 << 14;
  const int64_t blocks = (t.n + kBlock - 1) / kBlock;
  parallel.For(blocks, 1000, [&](int64_t begin, int64_t end) {
    float sum = ReadAll(t.x.data() + begin * kBlock, std::min(end * kBlock, t.n) - begin * kBlock);
    benchmark::DoNotOptimize(sum);
  });
}

const Case kCases[] = {
    {"limit/copy", 2, true,
     [](Arrays& t, cpu::Parallel& parallel) { cpu::CopyBytes(t.x.data(), t.y.data(), t.n * 4, parallel); }},
    {"limit/read", 1, true, Read},
    {"exp", 2, true, Unary<cpu::UnaryOp::kExp>},
    {"exp_loop", 2, false, [](Arrays& t, cpu::Parallel&) { LoopExp(t.x.data(), t.y.data(), t.n); }},
    {"tanh", 2, true, Unary<cpu::UnaryOp::kTanh>},
    {"tanh_loop", 2, false, [](Arrays& t, cpu::Parallel&) { LoopTanh(t.x.data(), t.y.data(), t.n); }},
    {"sigmoid", 2, true, Unary<cpu::UnaryOp::kSigmoid>},
    {"rsqrt", 2, true, Unary<cpu::UnaryOp::kRsqrt>},
    {"add", 3, true, Add},
    {"add_loop", 3, false,
     [](Arrays& t, cpu::Parallel&) { LoopAdd(t.x.data(), t.a.data(), t.y.data(), t.n); }},
    {"sum", 1, true, Sum},
    {"sum_loop", 1, false,
     [](Arrays& t, cpu::Parallel&) {
       float sum = LoopSum(t.x.data(), t.n);
       benchmark::DoNotOptimize(sum);
     }},
    {"softmax", 2, true,
     [](Arrays& t, cpu::Parallel& parallel) {
       cpu::Softmax(DataType::kFloat, t.x.data(), t.y.data(), t.n / kColumns, kColumns, parallel);
     }},
    {"softmax_loop", 2, false,
     [](Arrays& t, cpu::Parallel&) { LoopSoftmax(t.x.data(), t.y.data(), t.n / kColumns, kColumns); }},
    {"transpose", 2, true, TransposeSquare},
    {"transpose_loop", 2, false,
     [](Arrays& t, cpu::Parallel&) { LoopTranspose(t.x.data(), t.y.data(), Side(t.n), Side(t.n)); }},
    {"adam", 7, true, Adam},
    {"adam_loop", 7, false,
     [](Arrays& t, cpu::Parallel&) { LoopAdam(t.y.data(), t.a.data(), t.b.data(), t.x.data(), t.n); }},
};

template <void (*kFunction)(const float*, float*, int64_t)>
void Eigen(Arrays& t, cpu::Parallel&) {
  kFunction(t.x.data(), t.y.data(), t.n);
}

std::vector<Case> Cases() {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  if (cpu::DetectedIsa() != cpu::Isa::kAvx512) return cases;
  cases.insert(cases.end(), {{"exp_eigen", 2, false, Eigen<EigenExp>},
                             {"tanh_eigen", 2, false, Eigen<EigenTanh>},
                             {"sigmoid_eigen", 2, false, Eigen<EigenSigmoid>},
                             {"rsqrt_eigen", 2, false, Eigen<EigenRsqrt>}});
  return cases;
}

void RegisterAll() {
  for (const Case& c : Cases()) {
    for (const int64_t n : {int64_t{1} << 12, int64_t{1} << 16, int64_t{1} << 24}) {
      RegisterThreads(
          std::string(c.name) + "/" + std::to_string(n),
          [c, n](benchmark::State& state, int threads) {
            Arrays arrays(n);
            PoolParallel parallel(threads);
            c.run(arrays, parallel);
            for (auto _ : state) {
              c.run(arrays, parallel);
              benchmark::ClobberMemory();
            }
            CountRate(state, "GB/s", static_cast<double>(c.arrays * n) * sizeof(float));
          },
          c.threads ? kMaxThreads : 1);
    }
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
