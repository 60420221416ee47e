// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/status.h"

// Threads of a training program: each of them can request a stop of all, and Join returns the first error.
namespace millrace {

// Coordinates the end of a set of threads. Threads check ShouldStop() regularly and end when it is true; any
// thread calls RequestStop, with an error if there was one; the main thread calls Join, which waits and
// returns the first error. Thread-safe.
class Coordinator {
 public:
  static constexpr double kGracePeriodSecs = 120;

  // Errors with these codes are a normal end: Join returns OK after them. The destructor waits for threads
  // for `destruction_secs` at most.
  explicit Coordinator(std::vector<ErrorCode> clean_stop_codes = {ErrorCode::kOutOfRange},
                       double destruction_secs = kGracePeriodSecs);
  // Requests a stop and waits for all threads. Those that have not ended in time are logged and detached;
  // they must not use the coordinator any more, except that a LooperThread sees that it has stopped.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Only the first call has an effect; OK means no error. An error after Join is only logged.
  void RequestStop(const Status& error = Status());
  bool ShouldStop() const;
  // Waits for a stop request, at most that time (unset: no limit); returns whether there was one.
  bool WaitForStop(std::optional<double> timeout_secs = std::nullopt) const;
  // Clears a stop request, its error, and the call of Join.
  void ClearStop();
  bool joined() const;
  // The error of the first stop request: OK for a clean one.
  Status RequestedError() const;

  // Runs `body` in a thread that Join waits for; an error that it returns, or an exception, stops all
  // threads. The thread may outlive a Join whose grace period ends, not the coordinator.
  void StartThread(std::string name, std::function<Status()> body);

  // Waits until all threads have ended or a stop is requested; then for the threads, at most the grace
  // period. Returns the first error; without one, threads that are still running cause FailedPrecondition
  // "Coordinator stopped with threads still running: …", or are only logged. With `timeout_secs` it requests
  // a stop itself after that time, with DeadlineExceeded.
  Status Join(double stop_grace_period_secs = kGracePeriodSecs, bool ignore_live_threads = false,
              std::optional<double> timeout_secs = std::nullopt);

 private:
  friend class LooperThread;  // may outlive the coordinator
  struct State;
  const std::shared_ptr<State> state_;  // includes the threads
};

// Calls a function repeatedly in a thread of a coordinator, until that stops: at a fixed interval in seconds,
// counted from the start so that delays do not accumulate, or without pauses if unset. Any error stops the
// coordinator.
class LooperThread {
 public:
  LooperThread(Coordinator& coordinator, std::optional<double> interval_secs)
      : coordinator_(coordinator), state_(coordinator.state_), interval_secs_(interval_secs) {}
  virtual ~LooperThread() = default;
  LooperThread(const LooperThread&) = delete;
  LooperThread& operator=(const LooperThread&) = delete;

  // The thread owns the looper.
  static void Start(std::unique_ptr<LooperThread> looper, std::string name);
  // A looper that calls `function`.
  static void Loop(Coordinator& coordinator, std::optional<double> interval_secs, std::string name,
                   std::function<Status()> target);

 protected:
  virtual Status StartLoop() { return Status(); }
  virtual Status RunLoop() = 0;
  virtual Status StopLoop() { return Status(); }

 private:
  Status Run();

  Coordinator& coordinator_;  // used only at the start
  const std::shared_ptr<Coordinator::State> state_;
  const std::optional<double> interval_secs_;
};

}  // namespace millrace
