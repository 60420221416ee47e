// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cluster/simulate.h"

#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/strings.h"
#include "distributed/simulated_cluster.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

double Now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// Milliseconds of a part: wall time and processor time.
struct Cost {
  double wall_ms = -Now(CLOCK_MONOTONIC), cpu_ms = -Now(CLOCK_PROCESS_CPUTIME_ID);
  void End() {
    wall_ms += Now(CLOCK_MONOTONIC);
    cpu_ms += Now(CLOCK_PROCESS_CPUTIME_ID);
  }
};

Status SimulateOne(int tasks, int nodes_per_task, bool last) {
  MR_ASSIGN_OR_RETURN(auto cluster, SimulatedCluster::Make({.num_tasks = tasks}));
  std::vector<std::string> empty, nodes;
  for (int i = 0; i < tasks; ++i) {
    empty.push_back(StrCat("empty", i));
    nodes.push_back(StrCat("node", i, "_", nodes_per_task - 1));
  }
  tensorflow::GraphDef graph = SimulatedGraph(tasks, nodes_per_task);
  Cost open;
  MR_ASSIGN_OR_RETURN(Master::SessionPtr session, cluster->master().Open(SessionOptions(), nullptr));
  open.End();
  Cost create;
  MR_RETURN_IF_ERROR(session->session().Create(std::move(graph)));
  create.End();
  const auto run = [&](const std::vector<std::string>& targets) {
    return session->session().Run(RunOptions(), {}, {}, targets, nullptr, nullptr);
  };
  Cost first;
  MR_RETURN_IF_ERROR(run(nodes));
  first.End();
  MR_RETURN_IF_ERROR(run(empty));
  constexpr int kSteps = 5;
  Cost step;
  for (int i = 0; i < kSteps; ++i) MR_RETURN_IF_ERROR(run(empty));
  step.End();
  Cost close;
  MR_RETURN_IF_ERROR(cluster->master().CloseSession(session->handle()));
  session.reset();  // the last reference: closes the sessions of the tasks
  close.End();
  const auto broadcasts = cluster->network().broadcasts();
  std::printf(
      "  {\"tasks\": %d, \"nodes\": %d, \"open_ms\": %.1f, \"create_ms\": %.1f, \"first_step_ms\": %.1f, "
      "\"first_step_cpu_ms\": %.1f, \"empty_step_ms\": %.2f, \"empty_step_cpu_ms\": %.2f, \"close_ms\": "
      "%.1f, "
      "\"empty_step_network_ms\": %.2f}%s\n",
      tasks, tasks * nodes_per_task, open.wall_ms, create.wall_ms, first.wall_ms, first.cpu_ms,
      step.wall_ms / kSteps, step.cpu_ms / kSteps, close.wall_ms, broadcasts.back().network_us * 1e-3,
      last ? "" : ",");
  std::fflush(stdout);
  return Status();
}

}  // namespace

Status Simulate() {
  struct Size {
    int tasks, nodes_per_task;
  };
  const std::vector<Size> sizes = {{10, 10},     {100, 10},    {1000, 10},  {5000, 10},
                                   {10'000, 10}, {20'000, 10}, {1000, 1000}};
  std::printf("[\n");
  for (size_t i = 0; i < sizes.size(); ++i)
    MR_RETURN_IF_ERROR(SimulateOne(sizes[i].tasks, sizes[i].nodes_per_task, i + 1 == sizes.size()));
  std::printf("]\n");
  return Status();
}

}  // namespace millrace
