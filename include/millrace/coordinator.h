// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/status.h"

// Threads beside a training loop: any of them asks all to stop, and Join returns the first error.
namespace millrace {

// Coordinates the end of a set of threads. Threads look at ShouldStop() now and then and end when it is true;
// any thread calls RequestStop, with an error where there was one; the main thread calls Join, which waits
// and gives the first error. Thread-safe.
class Coordinator {
 public:
  static constexpr double kGracePeriodSecs = 120;

  // Errors of these kinds end the work in the normal way: Join gives OK after them. The destructor waits for
  // threads for `destruction_secs` at most.
  explicit Coordinator(std::vector<ErrorCode> clean_stop_codes = {ErrorCode::kOutOfRange},
                       double destruction_secs = kGracePeriodSecs);
  // Asks to stop and waits for all threads. Those that have not ended in time are logged and left behind;
  // they must not use the coordinator any more, except that a LooperThread sees that it has stopped.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // The first call counts; OK stands for no error. An error after Join is logged and otherwise lost.
  void RequestStop(const Status& error = Status());
  bool ShouldStop() const;
  // Waits for a request to stop, at most that long (no limit without a number); whether there was one.
  bool WaitForStop(std::optional<double> timeout_secs = std::nullopt) const;
  // Forgets a request to stop, its error, and that Join was called.
  void ClearStop();
  bool joined() const;
  // What the first request to stop said: OK for a clean one.
  Status RequestedError() const;

  // Runs `body` in a thread that Join waits for; an error that it returns asks all to stop. The thread may
  // outlive a Join whose grace period ends, not the coordinator.
  void StartThread(std::string name, std::function<Status()> body);

  // Waits until all threads have ended or a stop is requested; then for the threads, at most the grace
  // period. The first error wins; without one threads that are still running are FailedPrecondition
  // "Coordinator stopped with threads still running: …", or only logged. With `timeout_secs` it asks to stop
  // itself after that time, with DeadlineExceeded.
  Status Join(double stop_grace_period_secs = kGracePeriodSecs, bool ignore_live_threads = false,
              std::optional<double> timeout_secs = std::nullopt);

 private:
  friend class LooperThread;  // may outlive it
  struct State;
  const std::shared_ptr<State> state_;  // with the threads
};

// Does something again and again in a thread of a coordinator, until that stops: every so many seconds,
// counted from the start so that delays do not add up, or without a pause for nothing. An error of any part
// stops the coordinator.
class LooperThread {
 public:
  LooperThread(Coordinator& coordinator, std::optional<double> interval_secs)
      : coordinator_(coordinator), state_(coordinator.state_), interval_secs_(interval_secs) {}
  virtual ~LooperThread() = default;
  LooperThread(const LooperThread&) = delete;
  LooperThread& operator=(const LooperThread&) = delete;

  // The thread owns the looper.
  static void Start(std::unique_ptr<LooperThread> looper, std::string name);
  // A looper that calls a function.
  static void Loop(Coordinator& coordinator, std::optional<double> interval_secs, std::string name,
                   std::function<Status()> target);

 protected:
  virtual Status StartLoop() { return Status(); }
  virtual Status RunLoop() = 0;
  virtual Status StopLoop() { return Status(); }

 private:
  Status Run();

  Coordinator& coordinator_;  // where it starts
  const std::shared_ptr<Coordinator::State> state_;
  const std::optional<double> interval_secs_;
};

}  // namespace millrace
