// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The convolutions of ResNet-50 v1.5 (images of 224 x 224, NHWC) as one network runs them: one after the
// other, each with weights of its own, bias and rectification. Prints the time of each shape beside the
// multiply-adds that the processor does in registers (limits.h), sorted by the time lost, and the fraction of
// that peak over all. Winograd's method does fewer multiply-adds than are counted here, so a shape may exceed
// the peak.
//
//   bench_convs [--threads=N] [--batch=N] [--rounds=N] [--order]     (--order: as the network has them)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "bench/kernels/limits.h"
#include "kernels/cpu/contract/conv.h"
#include "millrace/tensor.h"
#include "tensor/cpu_allocator.h"

namespace millrace::bench {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Aligned memory, like that of tensors.
class Floats {
 public:
  Floats() = default;
  explicit Floats(int64_t count)
      : tensor_(*Tensor::Allocate(DataType::kFloat, TensorShape({count}), CpuAllocator())) {
    std::fill(data(), data() + count, 0.0f);
  }
  explicit Floats(const std::vector<float>& values) : Floats(static_cast<int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return tensor_.data<float>(); }
  bool empty() const { return tensor_.num_elements() == 0; }

 private:
  Tensor tensor_ = Tensor(DataType::kFloat, TensorShape({0}));
};

struct Case {
  std::unique_ptr<cpu::ConvPlan> plan;
  Floats filter, packed, bias;
  size_t row;  // of the table
  double ms = std::numeric_limits<double>::infinity();
};

struct Row {
  std::string name;
  double operations = 0;  // of one layer
  int count = 0;
  double ms = 0;  // of all of them
};

double Operations(const cpu::ConvParams& p) {
  return 2.0 * static_cast<double>(p.batch * p.out_h * p.out_w) *
         static_cast<double>(p.filter_h * p.filter_w * p.in_c * p.out_c);
}

class Network {
 public:
  explicit Network(int64_t batch) : batch_(batch) {
    Add(224, 3, 7, 2, 64);
    int64_t in = 64;
    int64_t side = 56;
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t width = int64_t{64} << stage;
      for (int block = 0; block < (stage == 0 ? 3 : stage == 1 ? 4 : stage == 2 ? 6 : 3); ++block) {
        const int64_t stride = block == 0 && stage > 0 ? 2 : 1;
        if (block == 0) Add(side, in, 1, stride, 4 * width);
        Add(side, in, 1, 1, width);
        Add(side, width, 3, stride, width);
        side /= stride;
        Add(side, width, 1, 1, 4 * width);
        in = 4 * width;
      }
    }
    input_ = Floats(RandomFloats(largest_));
    output_ = Floats(largest_);
  }

  void Run(cpu::Parallel& parallel) {
    for (Case& c : cases_) {
      const auto start = Clock::now();
      c.plan->Forward(input_.data(), c.filter.data(), output_.data(), parallel,
                      {.bias = c.bias.data(), .rectify = cpu::Rectify::kRelu},
                      c.packed.empty() ? nullptr : c.packed.data());
      c.ms = std::min(c.ms, MsSince(start));
    }
  }

  std::vector<Row> Table() const {
    std::vector<Row> rows = rows_;
    for (const Case& c : cases_) rows[c.row].ms += c.ms;
    return rows;
  }

 private:
  void Add(int64_t side, int64_t in, int64_t filter, int64_t stride, int64_t out) {
    cpu::ConvParams p;
    p.batch = batch_;
    p.in_h = p.in_w = side;
    p.in_c = in;
    p.filter_h = p.filter_w = filter;
    p.out_h = p.out_w = side / stride;
    p.out_c = out;
    p.stride_h = p.stride_w = stride;
    p.pad_top = p.pad_left = (filter - 1) / 2;
    Case c;
    c.plan = std::make_unique<cpu::ConvPlan>(p);
    c.filter = Floats(RandomFloats(filter * filter * in * out));
    c.bias = Floats(RandomFloats(out));
    if (const auto shape = c.plan->packing()) {
      c.packed = Floats(cpu::PackedElements<float>(*shape));
      cpu::PackMatrix(*shape, c.filter.data(), out, false, c.packed.data());
    }
    largest_ = std::max({largest_, batch_ * side * side * in, batch_ * p.out_h * p.out_w * out});
    const auto text = [](int64_t n) { return std::to_string(n); };
    const std::string name = text(side) + "x" + text(side) + "x" + text(in) + " " + text(filter) + "x" +
                             text(filter) + (stride == 1 ? "" : "s" + text(stride)) + " " + text(out);
    c.row = 0;
    while (c.row < rows_.size() && rows_[c.row].name != name) ++c.row;
    if (c.row == rows_.size()) rows_.push_back({name, Operations(p), 0, 0});
    ++rows_[c.row].count;
    cases_.push_back(std::move(c));
  }

  int64_t batch_;
  int64_t largest_ = 0;
  std::vector<Row> rows_;
  std::vector<Case> cases_;
  Floats input_, output_;
};

// Operations in a millisecond, of all threads.
double Peak(cpu::Parallel& parallel) {
  constexpr int64_t kRounds = 400000;
  const int64_t units = parallel.num_threads();
  const auto start = Clock::now();
  std::vector<double> done(static_cast<size_t>(units));
  parallel.For(units, 1000000, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) done[static_cast<size_t>(i)] = PeakFlops(kRounds);
  });
  double sum = 0;
  for (const double d : done) sum += d;
  return sum / MsSince(start);
}

int64_t Option(int argc, char** argv, const std::string& name, int64_t otherwise) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name.c_str(), name.size()) == 0) return std::atoll(argv[i] + name.size());
  }
  return otherwise;
}

int Main(int argc, char** argv) {
  const int threads = static_cast<int>(std::max<int64_t>(Option(argc, argv, "--threads=", 1), 1));
  const int64_t batch = std::max<int64_t>(Option(argc, argv, "--batch=", 1), 1);
  const int64_t rounds = std::max<int64_t>(Option(argc, argv, "--rounds=", 30), 1);
  PoolParallel parallel(threads);
  Network network(batch);
  double peak = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    peak = std::max(peak, Peak(parallel));
    network.Run(parallel);
  }
  std::vector<Row> rows = network.Table();
  const auto lost = [&](const Row& row) { return row.ms - row.operations * row.count / peak; };
  if (argc < 2 || std::strcmp(argv[argc - 1], "--order") != 0) {
    std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return lost(a) > lost(b); });
  }
  std::printf("peak: %.0f GFLOP/s with %d thread%s\n\n", peak * 1e-6, threads, threads == 1 ? "" : "s");
  std::printf(
      "| convolution | layers | ms | GFLOP/s | of the peak | lost, ms |\n|---|---|---|---|---|---|\n");
  Row all;
  for (const Row& row : rows) {
    const double operations = row.operations * row.count;
    std::printf("| %s | %d | %.2f | %.0f | %.2f | %.2f |\n", row.name.c_str(), row.count, row.ms,
                operations / row.ms * 1e-6, operations / row.ms / peak, lost(row));
    all.operations += operations;
    all.ms += row.ms;
    all.count += row.count;
  }
  std::printf("| all | %d | %.2f | %.0f | %.2f | %.2f |\n", all.count, all.ms, all.operations / all.ms * 1e-6,
              all.operations / all.ms / peak, all.ms - all.operations / peak);
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
