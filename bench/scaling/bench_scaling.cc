// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The speed-up by threads: each row with 1, 2, 4, 8 and 16 threads, as far as the machine has cores, beside
// libtorch where libtorch-dev is installed. The cases of a row run alternately, so that changes of the
// machine's speed affect all of them. The best time of a case counts.
//
//   bench_scaling [--filter=TEXT] [--threads=N] [--rounds=N] [--ms=N] [--baselines=0|1]
//                [--out=FILE] [--trace=FOLDER]
//
// --filter: rows whose name contains TEXT; --threads: at most N; --rounds: samples of a case (15); --ms:
// length of a sample (30); --baselines: whether libtorch runs, too (1); --out: the figures as JSON, which
// bench/scaling/plot.py draws; --trace: one more step of each case is traced into FOLDER/ROW.THREADS.pb,
// which `millrace trace` shows.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/scaling/program.h"
#include "bench/scaling/rows.h"
#include "millrace/json_writer.h"

namespace millrace::bench {
namespace {

struct Options {
  std::string filter;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int rounds = 15;
  int ms = 30;
  bool baselines = true;
  std::string out;
  std::string trace;
};

struct Case {
  int threads;
  bool baseline;
  Step step;
  int repeats = 1;
  double best_us = std::numeric_limits<double>::infinity();
};

double RunUs(const Step& step, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) step();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / repeats;
}

void Measure(const Options& options, std::vector<Case>* cases) {
  for (Case& c : *cases) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 0; i < 5; ++i) c.step();
    c.repeats = std::clamp(static_cast<int>(options.ms * 1e3 / RunUs(c.step, 3)), 1, 1'000'000);
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (Case& c : *cases) {
      // The threads of the previous case may still look for work.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      RunUs(c.step, std::min(c.repeats, 10));
      c.best_us = std::min(c.best_us, RunUs(c.step, c.repeats));
    }
  }
}

// Microseconds, and in brackets the speed-up over one thread.
void Print(const ScalingRow& row, const std::vector<Case>& cases) {
  std::printf("%-20.*s", static_cast<int>(row.name.size()), row.name.data());
  double one = 0, best_baseline = std::numeric_limits<double>::infinity(), best = best_baseline;
  for (const Case& c : cases) {
    if (c.threads == 1) one = c.best_us;
    (c.baseline ? best_baseline : best) = std::min(c.baseline ? best_baseline : best, c.best_us);
    std::printf(" %s%d: %.1f (%.2f)", c.baseline ? "torch/" : "", c.threads, c.best_us, one / c.best_us);
  }
  if (best_baseline < std::numeric_limits<double>::infinity())
    std::printf("  of the baseline: %.2f", best / best_baseline);
  std::printf("\n");
  std::fflush(stdout);
}

void Trace(const Options& options, const ScalingRow& row, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    if (c.baseline) continue;
    trace_file = options.trace + '/' + std::string(row.name) + '.' + std::to_string(c.threads) + ".pb";
    c.step();
    trace_file.clear();
  }
}

void Write(const ScalingRow& row, const std::vector<Case>& cases, JsonWriter* json) {
  json->BeginObject().Field("name", row.name).Field("what", row.what);
  json->Key("cases").BeginArray();
  for (const Case& c : cases) {
    json->BeginObject().Field("engine", c.baseline ? "libtorch" : "millrace");
    json->Field("threads", c.threads).Field("us", c.best_us).EndObject();
  }
  json->EndArray().EndObject();
}

int Main(const Options& options) {
  JsonWriter json;
  json.BeginObject().Field("cores", std::thread::hardware_concurrency());
  json.Key("rows").BeginArray();
  for (const ScalingRow& row : ScalingRows()) {
    if (row.name.find(options.filter) == std::string_view::npos) continue;
    std::vector<Case> cases;
    for (const bool baseline : {false, true}) {
      if (baseline && !options.baselines) continue;
      for (int threads = 1; threads <= options.threads; threads *= 2) {
#ifdef MR_HAVE_LIBTORCH
        Step step = baseline ? MakeTorchStep(row.name, threads) : row.make(threads);
#else
        Step step = baseline ? nullptr : row.make(threads);
#endif
        if (step != nullptr) cases.push_back({threads, baseline, std::move(step)});
      }
    }
    Measure(options, &cases);
    Print(row, cases);
    Write(row, cases, &json);
    if (!options.trace.empty()) Trace(options, row, cases);
  }
  json.EndArray().EndObject();
  if (!options.out.empty() && !(std::ofstream(options.out) << json.text() << '\n')) {
    std::fprintf(stderr, "bench_scaling: cannot write %s\n", options.out.c_str());
    return 1;
  }
  return 0;
}

bool Parse(int argc, char** argv, Options* options) {
  const auto number = [](std::string_view text, int* value) {
    *value = std::atoi(std::string(text).c_str());
    return *value > 0;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const size_t equals = arg.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = arg.substr(0, equals), value = arg.substr(equals + 1);
    if (name == "--filter") {
      options->filter = value;
    } else if (name == "--out") {
      options->out = value;
    } else if (name == "--trace") {
      options->trace = value;
    } else if (name == "--baselines") {
      options->baselines = value != "0";
    } else if (!(name == "--threads" && number(value, &options->threads)) &&
               !(name == "--rounds" && number(value, &options->rounds)) &&
               !(name == "--ms" && number(value, &options->ms))) {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  if (!millrace::bench::Parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: bench_scaling [--filter=TEXT] [--threads=N] [--rounds=N] [--ms=N] [--baselines=0|1] "
                 "[--out=FILE] [--trace=FOLDER]\n");
    return 2;
  }
  return millrace::bench::Main(options);
}
