// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// 11_hooks DIR: a training that writes summaries for TensorBoard, stops by a hook of its own, and traces a
// step.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "millrace/hooks.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/summary.h"

namespace mr = millrace;
namespace ops = millrace::ops;

// Stops when the loss is small. Hooks see each run: they may add fetches and feeds, and look at the results.
class StopWhenSmall final : public mr::SessionRunHook {
 public:
  StopWhenSmall(const mr::Output& loss, float small) : loss_(loss), small_(small) {}

  mr::StatusOr<mr::SessionRunArgs> BeforeRun(mr::SessionRunContext&) override {
    return mr::SessionRunArgs{.fetches = {loss_}};
  }
  mr::Status AfterRun(mr::SessionRunContext& context, const mr::SessionRunValues& values) override {
    ++runs_;
    if (values.results[0].scalar<float>() < small_) context.RequestStop();
    return mr::Status();
  }
  mr::Status End(mr::ClientSession&) override {
    std::cout << "stopped after " << runs_ << " runs\n";
    return mr::Status();
  }

 private:
  const mr::Output loss_;
  const float small_;
  int runs_ = 0;
};

mr::Status Run(const std::string& folder) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::GraphVariable step = mr::CreateGlobalStep(scope);
  const mr::GraphVariable w(scope.WithOpName("w"), {8.f, 4.f});
  const mr::Output loss = ops::Sum(scope.WithOpName("loss"), ops::Square(scope, w), 0);
  mr::summary::Scalar(scope, "loss_curve", loss);
  mr::summary::Histogram(scope, "weights", w);
  const mr::Operation train = mr::GradientDescentOptimizer(0.25f).Minimize(scope, loss, {}, step);

  mr::MonitoredTrainingSessionOptions options{.save_summaries_steps = 1, .summary_dir = folder};
  options.hooks = {std::make_shared<StopWhenSmall>(loss, 1.f)};
  MR_ASSIGN_OR_RETURN(const auto session, mr::MonitoredTrainingSession(scope, options));

  // The first step is traced: what each node did, when, on which thread, with how much memory.
  mr::RunMetadata metadata;
  MR_RETURN_IF_ERROR(
      session->Run({.trace_level = mr::RunOptions::TraceLevel::kFull}, {}, {}, {train}, nullptr, &metadata));
  std::ofstream(folder + "/trace.json") << metadata.ToChromeTrace();
  for (const mr::DeviceStats& device : metadata.devices)
    std::cout << "traced nodes on " << device.device << ": " << (device.nodes.empty() ? "none" : "some")
              << '\n';

  MR_RETURN_IF_ERROR(session->Loop([&](mr::MonitoredSession& s) { return s.Run(train); }));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("events.")) std::cout << "wrote events\n";
  }
  return mr::Status();
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const mr::Status status = Run(folder);
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
