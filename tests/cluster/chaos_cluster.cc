// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/chaos_cluster.h"

#include <fcntl.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "rpc/register.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDiskBytes = 1 << 20;

ChaosCluster* the_cluster = nullptr;

void WriteFile(const char* path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

void Fail(const std::string& text) {
  std::fprintf(stderr, "chaos: %s\n", text.c_str());
  if (the_cluster != nullptr) {
    for (size_t task = 0; task < ChaosCluster::kTasks; ++task) {
      const TaskState state = the_cluster->StateOf(task);
      std::fprintf(stderr, "  %s\n", (state.error.empty() ? state.text : state.error).c_str());
    }
    the_cluster->KillAll();
  }
  std::fflush(nullptr);
  std::_Exit(1);
}

ChaosCluster::ChaosCluster() {
  if (const Status status = RegisterGrpc(); !status.ok()) Fail(status.ToString());
  the_cluster = this;
  for (int& port : ports_) port = FreePort();
  for (int& port : data_ports_) port = FreePort();
  for (size_t from = 0; from <= kTasks; ++from) {
    for (size_t to = 0; to < kTasks; ++to) {
      if (from == to) continue;
      link_[from][to] = links_.Add(HostOf(from, to), 0, ports_[to]);
      if (from != kClient)
        data_link_[from][to] = links_.Add(HostOf(from, to), data_ports_[to], data_ports_[to]);
    }
  }
}

ChaosCluster::~ChaosCluster() {
  KillAll();
  the_cluster = nullptr;
}

void ChaosCluster::Launch(size_t task, bool shared_memory) {
  ClusterSpec spec;
  for (size_t to = 0; to < kTasks; ++to) {
    const std::string address = to == task ? StrCat("127.0.0.1:", ports_[to])
                                           : StrCat(HostOf(task, to), ":", links_.port(link_[task][to]));
    const Status status = spec.AddTask(kJobs[to], kNumbers[to], address);
    if (!status.ok()) Fail(status.ToString());
  }
  processes_[task] = nullptr;
  processes_[task] = std::make_unique<Process>(std::vector<std::string>{
      "server", "--cluster", spec.ToString(), "--job", kJobs[task], "--task", StrCat(kNumbers[task]),
      "--peer-timeout", "1", "--session-timeout", "20", "--session-gc-seconds", "2", "--shared-memory",
      shared_memory ? "64" : "0", "--data-port", StrCat(data_ports_[task])});
}

void ChaosCluster::AwaitReady(size_t task) {
  const std::string line = processes_[task]->Line();
  if (line.find("is ready at") == std::string::npos) Fail(StrCat("a task is not ready: ", line));
  first_tensor_bytes_[task] = StateOf(task).tensor_bytes;
}

void ChaosCluster::KillAll() {
  for (auto& process : processes_) process = nullptr;
}

std::string ChaosCluster::Target(size_t worker) const {
  const size_t task = kFirstWorker + worker;
  return StrCat("grpc://", HostOf(kClient, task), ":", links_.port(link_[kClient][task]));
}

int64_t ChaosCluster::BytesOfTensors() const {
  int64_t bytes = 0;
  for (const int port : data_ports_) bytes += links_.BytesTo(port);
  return bytes;
}

TaskState ChaosCluster::StateOf(size_t task) const {
  using google::protobuf::Struct;
  TaskState state;
  // Long enough for a busy machine.
  const auto text = DescribeCluster(StrCat("grpc://localhost:", ports_[task]), 15000);
  if (!text.ok()) {
    state.error = text.status().ToString();
    return state;
  }
  Struct all;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(*text, &all, google::protobuf::util::JsonParseOptions());
  if (!parsed.ok()) Fail(StrCat("the state is not JSON: ", *text));
  const std::string name = StrCat("/job:", kJobs[task], "/replica:0/task:", kNumbers[task]);
  for (const auto& listed : all.fields().at("tasks").list_value().values()) {
    const auto& fields = listed.struct_value().fields();
    if (fields.at("task").string_value() != name) continue;
    state.text = listed.ShortDebugString();
    google::protobuf::util::MessageToJsonString(listed, &state.text).ok();
    for (const char* key : {"sessions", "session_steps", "worker_sessions", "graphs", "steps", "graph_runs"})
      state.left += static_cast<int64_t>(fields.at(key).number_value());
    state.tensor_bytes = static_cast<int64_t>(fields.at("tensor_bytes").number_value());
    return state;
  }
  Fail(StrCat("the state lacks ", name));
}

int64_t ChaosCluster::ResidentBytes(size_t task) const {
  std::ifstream file(StrCat("/proc/", processes_[task]->pid(), "/statm"));
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// ---- The disk

SmallDisk::SmallDisk() {
  char folder[] = "/tmp/millrace_chaos_XXXXXX";
  if (::mkdtemp(folder) == nullptr) Fail("no folder");
  folder_ = folder;
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  bool own = ::unshare(CLONE_NEWNS) == 0;
  if (!own && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) {
    WriteFile("/proc/self/setgroups", "deny");
    WriteFile("/proc/self/uid_map", StrCat(user, " ", user, " 1"));
    WriteFile("/proc/self/gid_map", StrCat(group, " ", group, " 1"));
    own = true;
  }
  mounted_ = own && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
             ::mount("none", folder, "tmpfs", 0, StrCat("size=", kDiskBytes).c_str()) == 0;
  // So that a file that exceeds its process's limit is an error in the tasks, not a signal.
  ::signal(SIGXFSZ, SIG_IGN);
}

SmallDisk::~SmallDisk() {
  if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void SmallDisk::Fill(pid_t writer) {
  if (!mounted_) {
    const rlimit none{0, RLIM_INFINITY};
    if (::prlimit(writer, RLIMIT_FSIZE, &none, nullptr) != 0) Fail("no limit of files");
    return;
  }
  const int file = ::open(StrCat(folder_, "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (::write(file, block.data(), block.size()) > 0) {
  }
  ::close(file);
}

void SmallDisk::Empty(pid_t writer) {
  if (mounted_) {
    fs::remove(folder_ + "/filler");
    return;
  }
  const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
  ::prlimit(writer, RLIMIT_FSIZE, &all, nullptr);
}

}  // namespace millrace
