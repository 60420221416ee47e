// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "millrace/cluster.h"
#include "rpc/cluster_testing.h"
#include "rpc/register.h"

extern char** environ;

namespace millrace {

// Longer than any time limit under test, also on a busy machine.
inline constexpr std::chrono::seconds kPatience{30};

// One process of the program.
class Process {
 public:
  explicit Process(const std::vector<std::string>& args) {
    int pipe[2];
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], 1);
    const char* const program = std::getenv("MILLRACE_PROGRAM");
    std::vector<char*> argv;
    std::vector<std::string> words{program == nullptr ? "millrace" : program};
    words.insert(words.end(), args.begin(), args.end());
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0) << words[0];
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    output_ = pipe[0];
  }
  ~Process() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      Wait();
    }
    ::close(output_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // SIGSTOP: all threads have stopped when this returns.
  void Signal(int signal) const {
    ::kill(pid_, signal);
    siginfo_t info;
    if (signal == SIGSTOP) ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT);
  }
  // The first line that it prints; empty if it ends before.
  std::string Line() const {
    std::string line;
    char c = 0;
    while (::read(output_, &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }
  // The exit code; 128 and more for a signal.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

// Tasks of jobs, each a process; a name is for example "ps/0". Silent tasks are detected after three seconds
// unless overridden by `more`.
class ProcessCluster {
 public:
  // That number of tasks of each job; those in `later` are not started. `more`: further arguments.
  explicit ProcessCluster(const std::map<std::string, int>& jobs, const std::set<std::string>& later = {},
                          std::vector<std::string> more = {})
      : more_(std::move(more)) {
    EXPECT_EQ(RegisterGrpc(), Status());
    for (const auto& [job, count] : jobs) {
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(spec_.AddTask(job, i, StrCat("localhost:", FreePort())), Status());
        if (!later.contains(StrCat(job, "/", i))) processes_[StrCat(job, "/", i)] = nullptr;
      }
    }
    for (const auto& [name, process] : processes_) Launch(name);
    for (const auto& [name, process] : processes_) AwaitReady(name);
  }

  const ClusterSpec& spec() const { return spec_; }
  Process& process(const std::string& name) { return *processes_[name]; }
  std::string Target(const std::string& name) const {
    return StrCat("grpc://", *spec_.AddressOf(name.substr(0, name.size() - 2), name.back() - '0'));
  }
  void Launch(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"server",
                                      "--cluster",
                                      spec_.ToString(),
                                      "--job",
                                      name.substr(0, name.size() - 2),
                                      "--task",
                                      name.substr(name.size() - 1)};
    if (!std::ranges::count(more_, "--peer-timeout")) words.insert(words.end(), {"--peer-timeout", "3"});
    if (more_.empty()) words.insert(words.end(), {"--session-timeout", "20"});
    words.insert(words.end(), more_.begin(), more_.end());
    words.insert(words.end(), more.begin(), more.end());
    processes_[name] = std::make_unique<Process>(words);
  }
  void AwaitReady(const std::string& name) {
    EXPECT_THAT(processes_[name]->Line(), ::testing::HasSubstr("is ready at"));
  }
  // Starts a task, for the first time or again.
  void Restart(const std::string& name) {
    processes_[name] = nullptr;
    Launch(name);
    AwaitReady(name);
  }
  // Waits until the state of a task contains `parts`.
  void AwaitState(const std::string& name, const std::vector<std::string>& parts) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::string mine;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto state = DescribeCluster(Target(name), 2000);
      if (state.ok()) {
        const std::string task = StrCat("{\"task\":\"/job:", name.substr(0, name.size() - 2),
                                        "/replica:0/task:", name.substr(name.size() - 1));
        const size_t begin = state->find(task);
        mine =
            begin == std::string::npos ? "" : state->substr(begin, state->find("bytes_sent", begin) - begin);
        bool all = !mine.empty();
        for (const std::string& part : parts) all = all && mine.find(part) != std::string::npos;
        if (all) return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << name << ": " << mine;
  }
  void AwaitNothingLeft(const std::string& name) const {
    AwaitState(
        name, {"\"sessions\":0", "\"worker_sessions\":0", "\"graphs\":0", "\"steps\":0", "\"graph_runs\":0"});
  }

 private:
  const std::vector<std::string> more_;
  ClusterSpec spec_;
  std::map<std::string, std::unique_ptr<Process>> processes_;
};

}  // namespace millrace
