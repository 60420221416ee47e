// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "train.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "millrace/client_session.h"
#include "millrace/saved_model.h"
#include "model.h"
#include "replace_file.h"

namespace millrace::mnist {
namespace {

constexpr int64_t kStepsBetweenEvaluations = 100;
constexpr int64_t kEvaluationBatch = 500;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Batch {
  explicit Batch(int64_t size)
      : images(DataType::kFloat, {size, kImageSide, kImageSide, 1}),
        labels(DataType::kFloat, {size, kClasses}) {}
  Tensor images;
  Tensor labels;
};

// Sums over examples.
struct Score {
  int64_t right = 0;
  double loss = 0;
  int64_t examples = 0;

  double accuracy() const { return static_cast<double>(right) / static_cast<double>(examples); }
  double mean_loss() const { return loss / static_cast<double>(examples); }
};

SessionOptions WithThreads(int threads) {
  SessionOptions options;
  options.intra_op_parallelism_threads = threads;
  options.inter_op_parallelism_threads = threads;
  return options;
}

class Trainer {
 public:
  Trainer(const Dataset& data, const TrainOptions& options, const ModelSpec& spec)
      : data_(data),
        options_(options),
        scope_(Scope::NewRootScope()),
        model_(BuildModel(scope_, spec, options.seed)),
        session_(scope_, WithThreads(options.threads)),
        batcher_(data.train, options.seed),
        batch_(options.batch) {}

  StatusOr<ReportData> Run(const std::function<void(const Progress&)>& on_progress) {
    const Clock::time_point start = Clock::now();
    MR_RETURN_IF_ERROR(Prepare());
    for (int64_t step = 0;; ++step) {
      batcher_.NextBatch(batch_.images.flat<float>(), batch_.labels.flat<float>());
      const bool last = step == options_.steps || (options_.stop != nullptr && options_.stop());
      if (step % kStepsBetweenEvaluations == 0 || last) MR_RETURN_IF_ERROR(Evaluate(step, on_progress));
      report_.steps = step;
      if (last) break;
      MR_RETURN_IF_ERROR(Step(step));
    }
    report_.final_accuracy = report_.test_accuracy.values.back();
    report_.final_loss = report_.test_loss.values.back();
    AddTestPredictions(data_.test, probabilities_, report_);
    report_.step_times = SummarizeStepTimes(std::move(step_us_));
    report_.seconds = SecondsSince(start);
    if (!options_.export_dir.empty()) MR_RETURN_IF_ERROR(Export());
    return std::move(report_);
  }

 private:
  Status Prepare() {
    report_.model = options_.model;
    report_.data = data_.source;
    report_.steps = options_.steps;
    report_.batch = options_.batch;
    report_.seed = options_.seed;
    report_.threads = options_.threads;
    MR_RETURN_IF_ERROR(session_.Run({}, {}, {model_.initializer}, nullptr));
    std::vector<Output> values;
    for (const GraphVariable& parameter : model_.parameters) {
      values.push_back(parameter.value());
      const auto shape = scope_.ShapeOf(parameter.ref()).ToTensorShape();
      if (!shape.ok()) return shape.status();
      report_.parameters.push_back(
          {.name = parameter.name(), .shape = {shape->dims().begin(), shape->dims().end()}});
    }
    std::vector<Output> feeds = {model_.images, model_.labels};
    if (model_.keep_probability.IsSet()) feeds.push_back(model_.keep_probability);
    MR_ASSIGN_OR_RETURN(
        evaluate_, session_.MakeCallable(feeds, {model_.accuracy, model_.loss, model_.probabilities}, {}));
    if (model_.learning_rate.IsSet()) feeds.push_back(model_.learning_rate);
    MR_ASSIGN_OR_RETURN(train_, session_.MakeCallable(feeds, {}, {model_.train_step}));
    MR_ASSIGN_OR_RETURN(read_, session_.MakeCallable({}, values, {}));
    return Status();
  }

  // The feeds of a batch, except the learning rate.
  std::vector<Tensor> FeedsOf(const Batch& batch, float keep_probability) const {
    std::vector<Tensor> feeds = {batch.images, batch.labels};
    if (model_.keep_probability.IsSet()) feeds.push_back(Tensor::Scalar(keep_probability));
    return feeds;
  }

  Status Step(int64_t step) {
    std::vector<Tensor> feeds = FeedsOf(batch_, kTrainKeepProbability);
    if (model_.learning_rate.IsSet()) feeds.push_back(Tensor::Scalar(LearningRate(step)));
    const bool traced = !options_.trace.empty() && step == options_.steps - 1;
    const Clock::time_point start = Clock::now();
    Status status = traced ? TracedStep(feeds) : session_.RunCallable(train_, feeds, nullptr);
    step_us_.push_back(SecondsSince(start) * 1e6);
    return status;
  }

  // The same step with its times, memory and graph written to a file.
  Status TracedStep(const std::vector<Tensor>& values) {
    std::vector<Output> inputs = {model_.images, model_.labels};
    if (model_.keep_probability.IsSet()) inputs.push_back(model_.keep_probability);
    if (model_.learning_rate.IsSet()) inputs.push_back(model_.learning_rate);
    ClientSession::Feeds feeds;
    for (size_t i = 0; i < inputs.size(); ++i) feeds.emplace_back(inputs[i], values[i]);
    RunMetadata metadata;
    MR_RETURN_IF_ERROR(
        session_.Run({.trace_level = RunOptions::TraceLevel::kFull, .output_partition_graphs = true}, feeds,
                     {}, {model_.train_step}, nullptr, &metadata));
    return ReplaceFile(options_.trace, metadata.SerializeAsString());
  }

  // Images in, probabilities and the likeliest digit out. An existing model is replaced.
  Status Export() {
    return SimpleSave(session_, scope_, options_.export_dir, {{"images", model_.images}},
                      {{"probabilities", model_.probabilities}, {"digits", model_.digits}});
  }

  // Appends the probabilities to `probabilities` unless that is null.
  StatusOr<Score> ScoreOf(const Batch& batch, std::vector<float>* probabilities) {
    std::vector<Tensor> outputs;
    MR_RETURN_IF_ERROR(session_.RunCallable(evaluate_, FeedsOf(batch, 1.0f), &outputs));
    if (probabilities != nullptr) {
      const auto values = std::as_const(outputs[2]).flat<float>();
      probabilities->insert(probabilities->end(), values.begin(), values.end());
    }
    const int64_t examples = batch.images.dim(0);
    return Score{.right = std::llround(static_cast<double>(outputs[0].scalar<float>()) *
                                       static_cast<double>(examples)),
                 .loss = outputs[1].scalar<float>(),
                 .examples = examples};
  }

  StatusOr<Score> ScoreOfTestSet() {
    Score total;
    probabilities_.clear();
    const int64_t size = data_.test.size();
    for (int64_t begin = 0; begin < size; begin += kEvaluationBatch) {
      const int64_t count = std::min(kEvaluationBatch, size - begin);
      Batch batch(count);
      const auto labels =
          std::span(data_.test.labels).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
      std::copy_n(data_.test.image(begin).data(), count * kPixels, batch.images.data<float>());
      OneHot(labels, batch.labels.flat<float>());
      MR_ASSIGN_OR_RETURN(const Score score, ScoreOf(batch, &probabilities_));
      total.right += score.right;
      total.loss += score.loss;
      total.examples += score.examples;
    }
    return total;
  }

  Status Evaluate(int64_t step, const std::function<void(const Progress&)>& on_progress) {
    MR_ASSIGN_OR_RETURN(const Score train, ScoreOf(batch_, nullptr));
    MR_ASSIGN_OR_RETURN(const Score test, ScoreOfTestSet());
    report_.train_accuracy.Add(step, train.accuracy());
    report_.train_loss.Add(step, train.mean_loss());
    report_.test_accuracy.Add(step, test.accuracy());
    report_.test_loss.Add(step, test.mean_loss());
    std::vector<Tensor> values;
    MR_RETURN_IF_ERROR(session_.RunCallable(read_, {}, &values));
    for (size_t i = 0; i < values.size(); ++i) {
      report_.parameters[i].snapshots.push_back(Describe(step, std::as_const(values[i]).flat<float>()));
    }
    if (on_progress) {
      on_progress({.step = step,
                   .train_accuracy = train.accuracy(),
                   .train_loss = train.mean_loss(),
                   .test_accuracy = test.accuracy(),
                   .test_loss = test.mean_loss()});
    }
    return Status();
  }

  const Dataset& data_;
  const TrainOptions& options_;
  const Scope scope_;
  const Model model_;
  ClientSession session_;
  Session::CallableHandle train_ = -1, evaluate_ = -1, read_ = -1;
  Batcher batcher_;
  Batch batch_;
  std::vector<double> step_us_;
  std::vector<float> probabilities_;  // of the test set, by the latest evaluation
  ReportData report_;
};

}  // namespace

Status CheckOutputs(const TrainOptions& options, const std::string& report) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const std::string& path : {report, options.trace, options.export_dir}) {
    if (path.empty()) continue;
    const fs::path folder = fs::absolute(path, error).parent_path();
    if (!fs::is_directory(folder, error))
      return errors::NotFound(path, "; there is no folder ", folder.string());
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
      return errors::PermissionDenied(path, "; nothing can be written to ", folder.string());
    if (path != options.export_dir && fs::is_directory(path, error))
      return errors::FailedPrecondition(path, "; is a folder");
  }
  const std::string& model = options.export_dir;
  if (model.empty() || !fs::exists(model, error)) return Status();
  if (!fs::is_directory(model, error)) return errors::AlreadyExists(model, "; is a file, and not a folder");
  if (!MaybeSavedModelDirectory(model) && !fs::is_empty(model, error))
    return errors::AlreadyExists(model, "; is a folder with something else than a SavedModel in it");
  return Status();
}

StatusOr<ReportData> Train(const Dataset& data, const TrainOptions& options,
                           const std::function<void(const Progress&)>& on_progress) {
  const ModelSpec* const spec = FindModelSpec(options.model);
  if (spec == nullptr) return errors::InvalidArgument("no model '", options.model, "'");
  if (options.steps < 0) return errors::InvalidArgument("steps must not be negative, got ", options.steps);
  if (options.batch < 1 || options.batch > data.train.size()) {
    return errors::InvalidArgument("batch must be 1 to ", data.train.size(), ", got ", options.batch);
  }
  if (!options.trace.empty() && options.steps == 0) {
    return errors::InvalidArgument("--trace needs at least one training step");
  }
  if (data.test.size() == 0) return errors::InvalidArgument("the test set is empty");
  return Trainer(data, options, *spec).Run(on_progress);
}

}  // namespace millrace::mnist
