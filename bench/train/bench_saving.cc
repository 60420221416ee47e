// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long saving 1 GB of variables, 32 of 32 MiB, stops the steps of a training. Milliseconds, medians:
//
//   step          a step that changes all elements of all variables
//   loop          plain loops over as many bytes that change them in place, and that write the new values
//                 beside the old ones, as the step behind a checkpoint has to; these around the caches, too
//   save          Saver::Save, the baseline
//   save_behind   Saver::Save with write_behind, the first and the longest of the six steps that follow. In
//                 a line of its own the first checkpoint, when the saver has no memory of an earlier one for
//                 the new values
//
// Arguments: the folder for the checkpoints (default /tmp), the number of rounds (5).
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench_util.h"
#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/saver.h"

namespace millrace::bench {
namespace {

constexpr int kVariables = 32;
constexpr int32_t kElements = 8 << 20;

double Milliseconds(const std::function<Status()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  CheckOk(run());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// to = from - 1e-4; with `around` by stores that bypass the caches, where the processor has them.
void Subtract(const float* from, float* to, int64_t n, bool around) {
  int64_t i = 0;
#if defined(__SSE2__)
  const __m128 step = _mm_set1_ps(1e-4f);
  for (; around && i + 4 <= n; i += 4) _mm_stream_ps(to + i, _mm_sub_ps(_mm_loadu_ps(from + i), step));
  _mm_sfence();
#endif
  for (; i < n; ++i) to[i] = from[i] - 1e-4f;
}

// The same on all processors.
void Loop(const float* from, float* to, int64_t n, bool around) {
  const auto threads = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> all;
  for (int64_t t = 0; t < threads; ++t) {
    const int64_t begin = n * t / threads, end = n * (t + 1) / threads;
    all.emplace_back([=] { Subtract(from + begin, to + begin, end - begin, around); });
  }
}

void RunLoops(int rounds) {
  constexpr int64_t kAll = int64_t{kVariables} * kElements;
  Tensor a(DataType::kFloat, TensorShape({kAll})), b(DataType::kFloat, TensorShape({kAll}));
  float *from = a.data<float>(), *to = b.data<float>();
  std::fill_n(from, kAll, 1.f);
  std::fill_n(to, kAll, 1.f);
  std::vector<double> in_place, beside, around_caches;
  const auto loop = [&](bool around) {
    return Milliseconds([&] {
      Loop(from, to, kAll, around);
      return Status();
    });
  };
  for (int i = 0; i < 2 * rounds; ++i) {
    const bool around = i % 2 != 0;
    (around ? around_caches : beside).push_back(loop(around));
    std::swap(from, to);  // then the new memory is updated in place, as after a checkpoint
    float* const other = std::exchange(to, from);
    for (int k = 0; k < 3; ++k) in_place.push_back(loop(false));
    to = other;
  }
  std::printf("loop         %8.1f in place, %.1f beside, %.1f beside around the caches\n", Median(in_place),
              Median(beside), Median(around_caches));
}

void Run(const std::string& folder, int rounds) {
  const Scope scope = Scope::NewRootScope();
  const Output ones = ops::Fill(scope, {kElements}, 1.f);
  const GraphVariable change(scope, ops::Fill(scope, {kElements}, 1e-3f), {.trainable = false});
  std::vector<GradientAndVariable> gradients;
  for (int i = 0; i < kVariables; ++i) {
    gradients.push_back({change.value(), GraphVariable(scope, ones, {.resource = true})});
  }
  const Operation step = GradientDescentOptimizer(0.1f).ApplyGradients(scope, gradients);
  const Operation init = GlobalVariablesInitializer(scope);
  std::vector<Saveable> saveables;
  for (const auto& g : gradients) saveables.push_back({g.variable.name(), g.variable.ref()});
  Saver saver(scope, saveables, {.max_to_keep = 1});
  CheckOk(scope.status());
  const ClientSession session(scope);
  CheckOk(session.Run({}, {}, {init}, nullptr));
  const auto one_step = [&] { return session.Run({}, {}, {step}, nullptr); };
  const auto save = [&](bool behind, int64_t number) {
    return saver
        .Save(session, folder + "/model",
              {.global_step = number, .write_meta_graph = false, .write_behind = behind})
        .status();
  };
  for (int i = 0; i < 3; ++i) CheckOk(one_step());
  std::vector<double> steps, saves, stops, firsts, longests;
  for (int64_t i = 0; i <= rounds; ++i) {
    for (int k = 0; k < 3; ++k) steps.push_back(Milliseconds(one_step));
    if (i > 0) saves.push_back(Milliseconds([&] { return save(false, 2 * i); }));
    for (int k = 0; k < 3; ++k) CheckOk(one_step());
    const double stop = Milliseconds([&] { return save(true, 2 * i + 1); });
    const double first = Milliseconds(one_step);
    double longest = first;
    for (int k = 1; k < 6; ++k) longest = std::max(longest, Milliseconds(one_step));
    CheckOk(saver.Finish());
    if (i == 0) {
      std::printf("save_behind  %8.2f  step after it %.1f, longest %.1f (the first checkpoint)\n", stop,
                  first, longest);
      continue;
    }
    stops.push_back(stop);
    firsts.push_back(first);
    longests.push_back(longest);
  }
  std::printf("step         %8.1f\n", Median(steps));
  std::printf("save         %8.1f\n", Median(saves));
  std::printf("save_behind  %8.2f  step after it %.1f, longest %.1f\n", Median(stops), Median(firsts),
              Median(longests));
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const std::string folder = (argc > 1 ? std::string(argv[1]) : "/tmp") + "/millrace_bench_saving";
  std::filesystem::create_directories(folder);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  millrace::bench::RunLoops(rounds);
  millrace::bench::Run(folder, rounds);
  std::filesystem::remove_all(folder);
  return 0;
}
