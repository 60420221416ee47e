// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/logging.h"
#include "io/checkpoint/checkpoint_state.h"
#include "millrace/meta_graph.h"
#include "millrace/monitored_session.h"
#include "training/ready.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The first wait for another process; each following wait is twice as long.
constexpr double kFirstWaitSecs = 1;

void Pause(double seconds) {
  constexpr double kLongest = 24 * 3600;
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, kLongest)));
}

std::string NameOrNone(const Operation& operation) {
  return operation.IsSet() ? Scope::NameOf(operation) : "None";
}

}  // namespace

StatusOr<std::optional<std::string>> NotReady(const ClientSession& session, const Output& op) {
  if (!op.IsSet()) return std::optional<std::string>();
  std::vector<Tensor> values;
  const Status status = session.Run({op}, &values);
  if (status.code() == ErrorCode::kFailedPrecondition &&
      status.message().find("uninitialized") != std::string::npos) {
    return std::optional<std::string>(status.message());
  }
  MR_RETURN_IF_ERROR(status);
  if (values[0].num_elements() == 0) return std::optional<std::string>();
  if (values[0].dtype() != DataType::kString) {
    return errors::InvalidArgument("'", Scope::NameOf(op), "' returns no names of variables");
  }
  std::string text = "Variables not initialized: ";
  for (const std::string& name : values[0].flat<std::string>()) {
    text += (text.ends_with(": ") ? "" : ", ") + name;
  }
  return std::optional<std::string>(text);
}

StatusOr<std::optional<std::string>> SessionManager::TryLocalInit(const ClientSession& session) const {
  if (!options_.local_init_op.IsSet()) return std::optional<std::string>();
  MR_ASSIGN_OR_RETURN(auto missing, NotReady(session, options_.ready_for_local_init_op));
  if (missing.has_value()) return missing;
  MR_LOG(Info) << "Running local_init_op.";
  MR_RETURN_IF_ERROR(session.Run({}, {}, {options_.local_init_op}, nullptr));
  MR_LOG(Info) << "Done running local_init_op.";
  return missing;
}

StatusOr<std::pair<std::unique_ptr<ClientSession>, bool>> SessionManager::Restore(
    const Restoring& restoring) const {
  if (!restoring.checkpoint_dir.empty() && !restoring.checkpoint_path.empty()) {
    return errors::InvalidArgument("Can not provide both checkpoint_dir and checkpoint_filename_with_path.");
  }
  auto session = std::make_unique<ClientSession>(scope_, restoring.session);
  if (session->session() == nullptr) return session->Run({}, nullptr);
  Saver* const saver = restoring.saver;
  const std::string& folder = restoring.checkpoint_dir;
  std::string path = restoring.checkpoint_path;
  if (saver == nullptr || saver->empty() || (folder.empty() && path.empty())) {
    return std::pair(std::move(session), false);
  }
  std::vector<std::string> all_paths;
  const Clock::time_point begin = Clock::now();
  while (path.empty()) {
    MR_ASSIGN_OR_RETURN(const auto state, io::ReadCheckpointState(Env::Posix(), folder));
    if (state.has_value()) {
      path = state->model_checkpoint_path;
      all_paths = state->all_model_checkpoint_paths;
    } else if (!restoring.wait_for_checkpoint || !(SecondsSince(begin) < restoring.max_wait_secs)) {
      return std::pair(std::move(session), false);
    } else {
      MR_LOG(Info) << "Waiting for checkpoint to be available.";
      Pause(options_.recovery_wait_secs);
    }
  }
  MR_RETURN_IF_ERROR(saver->Restore(*session, path));
  if (!all_paths.empty()) saver->RecoverLastCheckpoints(all_paths);
  for (const Operation& op : CollectedOperations(scope_, "saved_model_initializers")) {
    MR_RETURN_IF_ERROR(session->Run({}, {}, {op}, nullptr));
  }
  return std::pair(std::move(session), true);
}

StatusOr<std::unique_ptr<ClientSession>> SessionManager::PrepareSession(
    const Restoring& restoring, const Initializing& initializing) const {
  MR_ASSIGN_OR_RETURN(auto restored, Restore(restoring));
  auto& [session, is_restored] = restored;
  if (!is_restored) {
    if (!initializing.init_op.IsSet() && !initializing.init_fn && !options_.local_init_op.IsSet()) {
      return errors::FailedPrecondition(
          "Model is not initialized and no init_op or init_fn or local_init_op was given");
    }
    if (initializing.init_op.IsSet()) {
      MR_RETURN_IF_ERROR(session->Run(initializing.init_feeds, {}, {initializing.init_op}, nullptr));
    }
    if (initializing.init_fn) MR_RETURN_IF_ERROR(initializing.init_fn(*session));
  }
  const char* const fn = initializing.init_fn ? "given" : "None";
  MR_ASSIGN_OR_RETURN(auto missing, TryLocalInit(*session));
  if (missing.has_value()) {
    return errors::FailedPrecondition("Init operations did not make model ready for local_init.  Init op: ",
                                      NameOrNone(initializing.init_op), ", init fn: ", fn,
                                      ", error: ", *missing);
  }
  MR_ASSIGN_OR_RETURN(missing, NotReady(*session, options_.ready_op));
  if (missing.has_value()) {
    return errors::FailedPrecondition(
        "Init operations did not make model ready.  Init op: ", NameOrNone(initializing.init_op),
        ", init fn: ", fn, ", local_init_op: ", NameOrNone(options_.local_init_op), ", error: ", *missing);
  }
  return std::move(session);
}

StatusOr<std::pair<std::unique_ptr<ClientSession>, bool>> SessionManager::RecoverSession(
    const Restoring& restoring) const {
  MR_ASSIGN_OR_RETURN(auto restored, Restore(restoring));
  auto& [session, is_ready] = restored;
  MR_ASSIGN_OR_RETURN(auto missing, TryLocalInit(*session));
  if (!is_ready) return restored;
  if (!missing.has_value()) {
    MR_ASSIGN_OR_RETURN(missing, NotReady(*session, options_.ready_op));
  }
  is_ready = !missing.has_value();
  MR_LOG(Info) << "Restor" << (is_ready ? "ed" : "ing") << " model from " << restoring.checkpoint_dir
               << restoring.checkpoint_path << (is_ready ? "" : " did not make model ready: ")
               << missing.value_or("");
  return restored;
}

StatusOr<std::unique_ptr<ClientSession>> SessionManager::WaitForSession(const SessionOptions& session_options,
                                                                        double max_wait_secs) const {
  const Clock::time_point begin = Clock::now();
  double pause = std::min(kFirstWaitSecs, options_.recovery_wait_secs);
  for (;;) {
    auto session = std::make_unique<ClientSession>(scope_, session_options);
    if (session->session() == nullptr) return session->Run({}, nullptr);
    MR_ASSIGN_OR_RETURN(const auto local, TryLocalInit(*session));
    std::optional<std::string> global;
    if (!local.has_value()) {
      MR_ASSIGN_OR_RETURN(global, NotReady(*session, options_.ready_op));
      if (!global.has_value()) return session;
    }
    session->session()->Close().IgnoreError("another one is made");
    if (!(SecondsSince(begin) + pause <= max_wait_secs)) {
      return errors::DeadlineExceeded("Session was not ready after waiting ", max_wait_secs, " secs.");
    }
    MR_LOG(Info) << "Waiting for model to be ready.  Ready_for_local_init_op:  " << local.value_or("None")
                 << ", ready: " << global.value_or("None");
    Pause(pause);
    pause = std::min(2 * pause, options_.recovery_wait_secs);
  }
}

}  // namespace millrace
