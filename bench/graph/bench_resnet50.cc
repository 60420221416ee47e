// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/graph/bench_resnet50.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/bench_util.h"
#include "bench/graph/resnet50.h"
#include "bench/graph/resnet50_net.h"
#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/scope.h"

#ifdef MR_HAVE_LIBTORCH
#include "bench/graph/libtorch_resnet50.h"
#endif

namespace millrace::bench {
namespace {

struct Config {
  std::set<std::string> disabled;
  bool nchw = false;
  Weights weights = Weights::kConstants;
};

// A model that is ready to run.
class MillraceModel {
 public:
  MillraceModel(int64_t batch, const Config& config, int threads) {
    const Scope scope = Scope::NewRootScope();
    const Output image = ops::Placeholder(
        scope, DataType::kFloat, ops::Placeholder::Shape(PartialShape(ImageShape(batch, config.nchw))));
    MillraceNet net(scope, config.nchw, config.weights);
    const Output logits = BuildResnet50(net, image);
    CheckOk(scope.status());
    SessionOptions options;
    options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = threads;
    options.disabled_passes = config.disabled;
    session_ = std::make_unique<ClientSession>(scope, options);
    if (!net.initializers().empty()) CheckOk(session_->Run({}, {}, net.initializers(), nullptr));
    const auto callable = session_->MakeCallable({image}, {logits}, {});
    CheckOk(callable.status());
    callable_ = *callable;
    feeds_.push_back(Images(batch, config.nchw));
  }
  std::vector<float> Run() {
    std::vector<Tensor> outputs;
    CheckOk(session_->RunCallable(callable_, feeds_, &outputs));
    const auto values = outputs[0].flat<float>();
    return {values.begin(), values.end()};
  }

 private:
  static TensorShape ImageShape(int64_t batch, bool nchw) {
    return nchw ? TensorShape({batch, 3, kImageSide, kImageSide})
                : TensorShape({batch, kImageSide, kImageSide, 3});
  }
  static Tensor Images(int64_t batch, bool nchw) {
    const Tensor nhwc = TensorOf(RandomImages(batch), ImageShape(batch, false));
    if (!nchw) return nhwc;
    Tensor t(DataType::kFloat, ImageShape(batch, true));
    constexpr int64_t kPixels = kImageSide * kImageSide;
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t p = 0; p < kPixels; ++p) {
        for (int64_t c = 0; c < 3; ++c) {
          t.data<float>()[(i * 3 + c) * kPixels + p] = nhwc.data<float>()[(i * kPixels + p) * 3 + c];
        }
      }
    }
    return t;
  }

  std::unique_ptr<ClientSession> session_;
  Session::CallableHandle callable_{};
  std::vector<Tensor> feeds_;
};

// The value of a line of /proc/self/status, in MB.
double StatusMb(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::strtod(line.c_str() + key.size() + 1, nullptr) / 1024;
  }
  return 0;
}

// From now on VmHWM is the peak since this call.
void ResetPeak() { std::ofstream("/proc/self/clear_refs") << 5; }

// The memory of the process before the first case.
const double base_mb = StatusMb("VmRSS");

// The model of the running case, kept between the calls that the benchmark library makes for it.
struct Current {
  std::string name;
  std::function<std::vector<float>()> run;
  double setup_mb = 0;
};

template <typename Make>
void Time(benchmark::State& state, const std::string& name, int64_t batch, const Make& make) {
  static Current current;
  if (current.name != name) {
    current = Current{};
    ResetPeak();
    std::shared_ptr model = make();
    benchmark::DoNotOptimize(model->Run());
    current = Current{name, [model] { return model->Run(); }, StatusMb("VmHWM") - base_mb};
    for (int i = 0; i < 3; ++i) benchmark::DoNotOptimize(current.run());
  }
  ResetPeak();
  for (auto _ : state) benchmark::DoNotOptimize(current.run());
  state.counters["setup_mb"] = current.setup_mb;
  state.counters["run_mb"] = StatusMb("VmHWM") - base_mb;
  state.counters["gflops"] =
      benchmark::Counter(8.18 * static_cast<double>(batch), benchmark::Counter::kIsIterationInvariantRate);
}

// The largest difference of `got` and `want`, relative to the largest value.
[[maybe_unused]] double Difference(const std::vector<float>& want, const std::vector<float>& got) {
  if (want.size() != got.size()) return INFINITY;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
    difference = std::max(difference, std::fabs(static_cast<double>(want[i]) - got[i]));
  }
  return difference / largest;
}

#ifdef MR_HAVE_LIBTORCH
// All forms of both must compute the same.
void CheckValues(benchmark::State& state, int64_t batch) {
  const std::vector<float> want = LibtorchResnet50(LibtorchForm::kContiguous, batch, 1).Run();
  double worst = 0;
  const auto check = [&](const std::vector<float>& got) { worst = std::max(worst, Difference(want, got)); };
  for (const auto form : {LibtorchForm::kChannelsLast, LibtorchForm::kFrozen, LibtorchForm::kFrozenLast,
                          LibtorchForm::kOptimized}) {
    check(LibtorchResnet50(form, batch, 1).Run());
  }
  for (const bool nchw : {false, true}) {
    for (const auto& disabled : {std::set<std::string>{}, {"all"}}) {
      check(MillraceModel(batch, {disabled, nchw}, 2).Run());
    }
  }
  check(MillraceModel(batch, {{}, false, Weights::kVariables}, 2).Run());
  for (auto _ : state) benchmark::DoNotOptimize(worst);
  state.counters["difference"] = worst;
  if (!(worst < 1e-4)) state.SkipWithError("values differ");
}
#endif

void Add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime()
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

void RegisterResnet50() {
  for (const int64_t batch : {1, 32}) {
    const std::string size = "/" + std::to_string(batch);
    const auto add = [&](const std::string& name, const Config& config) {
      Add(name + size, [=](benchmark::State& state) {
        Time(state, name + size + "/" + std::to_string(state.range(0)), batch, [&] {
          return std::make_unique<MillraceModel>(batch, config, static_cast<int>(state.range(0)));
        });
      });
    };
    add("resnet50", {});
    add("resnet50_unfused", {{"fuse"}});
    add("resnet50_passes_off", {{"all"}});
    add("resnet50_variables", {{}, false, Weights::kVariables});
    add("resnet50_nchw", {{}, true});
    add("resnet50_nchw_passes_off", {{"all"}, true});
#ifdef MR_HAVE_LIBTORCH
    const auto baseline = [&](const std::string& name, LibtorchForm form) {
      Add(name + size, [=](benchmark::State& state) {
        Time(state, name + size + "/" + std::to_string(state.range(0)), batch, [&] {
          return std::make_unique<LibtorchResnet50>(form, batch, static_cast<int>(state.range(0)));
        });
      });
    };
    baseline("resnet50_libtorch_contiguous", LibtorchForm::kContiguous);
    baseline("resnet50_libtorch_channels_last", LibtorchForm::kChannelsLast);
    baseline("resnet50_libtorch_frozen", LibtorchForm::kFrozen);
    baseline("resnet50_libtorch_frozen_channels_last", LibtorchForm::kFrozenLast);
    baseline("resnet50_libtorch_optimized", LibtorchForm::kOptimized);
#endif
  }
#ifdef MR_HAVE_LIBTORCH
  benchmark::RegisterBenchmark("resnet50_values/2", CheckValues, 2)->Iterations(1);
#endif
}

}  // namespace millrace::bench
