// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Trains a digit model and reports its accuracy: progress on standard error, one JSON object as the last line
// of standard output, and optionally a report as an HTML page.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "dataset.h"
#include "millrace/json_writer.h"
#include "model.h"
#include "report.h"
#include "train.h"

namespace millrace::mnist {
namespace {

struct Options {
  TrainOptions train;
  std::string data_dir;
  std::string report;
};

void AddOptions(CLI::App& app, Options& options) {
  std::vector<std::string> names;
  for (const ModelSpec& spec : ModelSpecs()) names.emplace_back(spec.name);
  app.add_option("--model", options.train.model, "What to train")->check(CLI::IsMember(names));
  app.add_option(
      "--data_dir", options.data_dir,
      "Folder of MNIST files; default: $MNIST_DIR, ./data/mnist, else generated digits; 'generated' always "
      "generates");
  app.add_option("--steps", options.train.steps, "Training steps")->check(CLI::Range(0, 10000000));
  app.add_option("--batch", options.train.batch, "Examples in a step")->check(CLI::Range(1, 60000));
  app.add_option("--seed", options.train.seed, "Of all random numbers");
  app.add_option("--threads", options.train.threads, "0: one per core")->check(CLI::Range(0, 1024));
  app.add_option("--report", options.report, "Where to write the report, an HTML page");
  app.add_option("--export", options.train.export_dir, "Folder for the trained model, a SavedModel");
  app.add_option("--trace", options.train.trace,
                 "Where to write what the last training step did, for `millrace trace`");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_name() == "--help") continue;
    option->capture_default_str();
    option->take_last();  // so that a script's defaults can be overridden
  }
}

void ShowProgress(const Progress& progress, int64_t steps) {
  static const bool is_terminal = isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, "%sstep %lld/%lld  train accuracy %.3f loss %.4f  test accuracy %.4f loss %.4f%s",
               is_terminal ? "\r" : "", static_cast<long long>(progress.step), static_cast<long long>(steps),
               progress.train_accuracy, progress.train_loss, progress.test_accuracy, progress.test_loss,
               is_terminal && progress.step < steps ? "" : "\n");
}

// Ctrl-C ends the training after the step that runs; a second one ends the program.
volatile std::sig_atomic_t interrupted = 0;
void Interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

Status Run(Options options) {
  MR_RETURN_IF_ERROR(CheckOutputs(options.train, options.report));
  std::signal(SIGINT, Interrupt);
  options.train.stop = [] { return interrupted != 0; };
  if (options.train.threads == 0) {
    options.train.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  const char* const mnist_dir = std::getenv("MNIST_DIR");
  MR_ASSIGN_OR_RETURN(const Dataset data, LoadDataset({.data_dir = options.data_dir,
                                                       .mnist_dir = mnist_dir == nullptr ? "" : mnist_dir,
                                                       .threads = options.train.threads}));
  std::fprintf(stderr, "%s on %s, %d thread%s\n", options.train.model.c_str(), data.source.c_str(),
               options.train.threads, options.train.threads == 1 ? "" : "s");
  MR_ASSIGN_OR_RETURN(const ReportData report, Train(data, options.train, [&](const Progress& progress) {
                        ShowProgress(progress, options.train.steps);
                      }));
  if (!options.report.empty()) {
    MR_RETURN_IF_ERROR(WriteReport(report, options.report));
    std::fprintf(stderr, "report: %s\n", options.report.c_str());
  }
  if (!options.train.export_dir.empty()) {
    std::fprintf(stderr, "model: %s (millrace show prints its contents)\n", options.train.export_dir.c_str());
  }
  if (!options.train.trace.empty() && interrupted == 0) {
    std::fprintf(stderr, "trace: %s (millrace trace makes a timeline of it)\n", options.train.trace.c_str());
  }
  JsonWriter json;
  json.BeginObject()
      .Field("model", report.model)
      .Field("data", report.data)
      .Field("steps", report.steps)
      .Field("threads", report.threads)
      .Field("test_accuracy", report.final_accuracy)
      .Field("test_loss", report.final_loss)
      .Field("step_us_median", report.step_times.median)
      .Field("step_us_p99", report.step_times.p99)
      .Field("seconds", report.seconds)
      .EndObject();
  std::printf("%s\n", json.text().c_str());
  return Status();
}

}  // namespace
}  // namespace millrace::mnist

int main(int argc, char** argv) {
  millrace::mnist::Options options;
  CLI::App app("Trains a model that reads handwritten digits.", "mnist");
  millrace::mnist::AddOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // help, or an invalid command line
  }
  const millrace::Status status = millrace::mnist::Run(std::move(options));
  if (!status.ok()) std::fprintf(stderr, "mnist: %s\n", status.ToString().c_str());
  if (!status.ok()) return 1;
  return millrace::mnist::interrupted == 0 ? 0 : 128 + SIGINT;
}
