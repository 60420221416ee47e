// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which of the errors of a step's tasks is its error, in each order in which they may arrive.
#include "step/run_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/cancellation.h"
#include "base/step_cancelled.h"
#include "graph/testing.h"
#include "step/task_steps.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

std::string TaskOf(size_t i) { return StrCat("/job:w/replica:0/task:", i); }

// A task behind a connection whose errors a test reports in its own order.
class FakeWorker : public Worker {
 public:
  explicit FakeWorker(std::string task) : task_(std::move(task)), devices_(std::vector<DeviceAttributes>{}) {}
  const std::string& task() const override { return task_; }
  const DeviceView& devices() const override { return devices_; }
  bool in_process() const override { return false; }
  void InstallAsync(PartitionSpec /*spec*/, Installed done) override { done(errors::Unimplemented("")); }
  void RecvTensor(int64_t /*step_id*/, const Rendezvous::Key& /*key*/, Rendezvous::RecvDone done) override {
    done(errors::Unimplemented(""), Tensor(), false);
  }
  void CleanUpStep(int64_t /*step_id*/, Done done) override { done(Status()); }
  void ClearContainers(std::vector<std::string> /*containers*/, Done done) override { done(Status()); }

 private:
  const std::string task_;
  const DeviceView devices_;
};

class FakePartition : public InstalledPartition {
 public:
  void Run(StepArgs& /*args*/, Done done) override { done_ = std::move(done); }
  std::vector<std::string> SerializedGraphs() const override {
    tensorflow::GraphDef graph = GraphDefFromText(R"(
      node { name: "_retval_x_0" op: "Const" }
      node { name: "_retval_a_b_1_0" op: "_Retval" } node { name: "_retval_c_0_10" op: "_Retval" })");
    return {graph.SerializeAsString()};
  }
  void AppendCosts(const CostModel& /*model*/, std::vector<CostNode>* /*nodes*/) const override {}
  void End(Status status) { std::exchange(done_, nullptr)(std::move(status)); }

 private:
  Done done_;
};

struct TaskEnd {
  size_t task;
  Status status;
};

Status ErrorOf(const std::vector<TaskEnd>& ends) {
  std::vector<std::unique_ptr<FakeWorker>> workers;
  std::vector<FakePartition*> partitions;
  CompiledStep step;
  for (size_t i = 0; i < ends.size(); ++i) {
    workers.push_back(std::make_unique<FakeWorker>(TaskOf(i)));
    step.workers.push_back(workers.back().get());
    auto partition = std::make_unique<FakePartition>();
    partitions.push_back(partition.get());
    step.partitions.push_back(std::move(partition));
  }
  step.several_tasks = true;
  CancellationManager cancellation;
  StepArgs args;
  args.cancellation = &cancellation;
  Status result = errors::Internal("not ended");
  StartOnWorkers(step, args, [&](Status status) { result = std::move(status); });
  for (const TaskEnd& end : ends) partitions[end.task]->End(end.status);
  return result;
}

TEST(RunWorkersTest, TheErrorOfANodeIsNamedByItsTaskInAnyOrder) {
  // The node's error is itself that it was cancelled; a tensor carries it to task 2, and from there to task
  // 0.
  const Status original = errors::Cancelled("Enqueue operation was cancelled\n\t [[{{node enq}}]]");
  const Status derived = MakeDerived(original);
  const auto at = [&](const char* node) {
    return Status(derived.code(), StrCat(derived.message(), "\n\t [[{{node ", node, "}}]]"));
  };
  std::vector<TaskEnd> ends = {{0, at("z")}, {1, original}, {2, at("y")}, {3, StepCancelled()}};
  std::ranges::sort(ends, {}, &TaskEnd::task);
  do {
    if (ends.front().task == 3) continue;  // nobody has cancelled it yet
    const Status error = ErrorOf(ends);
    EXPECT_TRUE(errors::IsCancelled(error)) << error;
    EXPECT_EQ(error.message(), StrCat("From ", TaskOf(1), ":\n", original.message()));
  } while (std::ranges::next_permutation(ends, {}, &TaskEnd::task).found);
}

TEST(RunWorkersTest, AnErrorOfItsOwnCountsMoreThanCancellations) {
  const Status other = errors::Cancelled("Dequeue operation was cancelled");
  const Status ends = errors::Unavailable("Task ends");
  EXPECT_EQ(ErrorOf({{0, MakeDerived(other)}, {1, other}, {2, ends}}),
            errors::Unavailable("From ", TaskOf(2), ":\nTask ends"));
  EXPECT_EQ(ErrorOf({{0, ends}, {1, other}, {2, MakeDerived(other)}}),
            errors::Unavailable("From ", TaskOf(0), ":\nTask ends"));
}

TEST(RunWorkersTest, ATaskThatHasDroppedACancelledStepDoesNotDecide) {
  const Status late = errors::Aborted("Step 0 has ended at ", TaskOf(1));
  const Status lost = errors::Unavailable("The connection is closed");
  EXPECT_EQ(ErrorOf({{0, lost}, {1, late}}), errors::Unavailable("From ", TaskOf(0), ":\n", lost.message()));
  EXPECT_EQ(ErrorOf({{0, MakeDerived(lost)}, {1, late}, {2, MakeDerived(late)}}),
            errors::Unavailable("From ", TaskOf(0), ":\n", lost.message()));
  EXPECT_EQ(ErrorOf({{0, late}}), errors::Aborted("From ", TaskOf(0), ":\n", late.message()));
}

TEST(RunWorkersTest, FetchesWithoutAValueAreNamed) {
  const auto dead = [](const char* number) {
    return ErrorOf({{0, errors::InvalidArgument("Retval[", number, "] does not have value")}}).message();
  };
  EXPECT_EQ(dead("0"), StrCat("From ", TaskOf(0), ":\nThe tensor returned for a_b:1 was not valid."));
  EXPECT_EQ(dead("10"), StrCat("From ", TaskOf(0), ":\nThe tensor returned for c:0 was not valid."));
  EXPECT_EQ(dead("1"), StrCat("From ", TaskOf(0), ":\nRetval[1] does not have value"));
}

}  // namespace
}  // namespace millrace
