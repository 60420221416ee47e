// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/session_factory.h"

#include <map>
#include <utility>

#include "base/fork.h"
#include "session/direct_session.h"
#include "session/process_session.h"

namespace millrace {
namespace {

struct Factories {
  Mutex mu;
  std::map<std::string, SessionFactory> by_name MR_GUARDED_BY(mu);
};

SessionFactory DirectFactory() {
  SessionFactory f;
  f.accepts = [](const SessionOptions& options) { return options.target.empty(); };
  f.make = DirectSession::Make;
  f.reset = [](const SessionOptions&, const std::vector<std::string>& containers) {
    DirectSessions::Get().ResetAll(containers);
    return Status();
  };
  return f;
}

Factories& GetFactories() {
  static Factories* factories = [] {
    auto* f = new Factories;
    MutexLock lock(f->mu);
    f->by_name["DIRECT_SESSION"] = DirectFactory();
    return f;
  }();
  return *factories;
}

StatusOr<SessionFactory> FindFactory(const SessionOptions& options) {
  Factories& factories = GetFactories();
  MutexLock lock(factories.mu);
  std::string names;
  for (const auto& [name, factory] : factories.by_name) {
    if (factory.accepts(options)) return factory;
    names += names.empty() ? name : ", " + name;
  }
  return errors::NotFound("No session factory registered for the given session options: {target: \"",
                          options.target, "\"} Registered factories are {", names, "}.");
}

}  // namespace

Status Session::Create(tensorflow::GraphDef&& graph) { return Create(std::as_const(graph)); }

Status Session::Extend(tensorflow::GraphDef&& graph) { return Extend(std::as_const(graph)); }

StatusOr<std::string> Session::PRunSetup(const std::vector<std::string>&, const std::vector<std::string>&,
                                         const std::vector<std::string>&) {
  return errors::Unimplemented("Partial run is not supported for this session.");
}

void Session::CancelSteps() {}

Status Session::PRun(const std::string&, const Feeds&, const std::vector<std::string>&,
                     std::vector<Tensor>*) {
  return errors::Unimplemented("Partial run is not supported for this session.");
}

Status RegisterSessionFactory(std::string name, SessionFactory factory) {
  Factories& factories = GetFactories();
  MutexLock lock(factories.mu);
  if (!factories.by_name.emplace(name, std::move(factory)).second) {
    return errors::AlreadyExists("Two session factories are being registered under ", name);
  }
  return Status();
}

StatusOr<std::unique_ptr<Session>> NewSession(const SessionOptions& options) {
  MR_ASSIGN_OR_RETURN(SessionFactory factory, FindFactory(options));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, factory.make(options));
  return MakeProcessSession(std::move(session));
}

Status Reset(const SessionOptions& options, const std::vector<std::string>& containers) {
  MR_ASSIGN_OR_RETURN(SessionFactory factory, FindFactory(options));
  return factory.reset(options, containers);
}

DirectSessions& DirectSessions::Get() { return OfProcess<DirectSessions>(); }

void DirectSessions::Add(DirectSession* session) {
  MutexLock lock(mu_);
  sessions_.insert(session);
}

void DirectSessions::Remove(DirectSession* session) {
  MutexLock lock(mu_);
  sessions_.erase(session);
}

void DirectSessions::ResetAll(const std::vector<std::string>& containers) {
  // With the lock, so that no session is destroyed meanwhile; closing a session only runs cancellation
  // callbacks.
  MutexLock lock(mu_);
  for (DirectSession* session : sessions_) session->ResetContainers(containers);
  sessions_.clear();
}

std::shared_ptr<ThreadPool> GetThreadPool(int parallelism, bool own) {
  if (parallelism <= 1) return nullptr;
  if (own) return std::make_shared<ThreadPool>("session", parallelism);
  struct Pools {
    Mutex mu;
    std::map<int, std::weak_ptr<ThreadPool>> by_size MR_GUARDED_BY(mu);
  };
  Pools& pools = OfProcess<Pools>();
  MutexLock lock(pools.mu);
  std::weak_ptr<ThreadPool>& shared = pools.by_size[parallelism];
  if (std::shared_ptr<ThreadPool> pool = shared.lock()) return pool;
  auto pool = std::make_shared<ThreadPool>("compute", parallelism);
  shared = pool;
  return pool;
}

StatusOr<std::shared_ptr<ThreadPool>> GetGlobalThreadPool(const std::string& name, int num_threads,
                                                          int default_threads) {
  struct Entry {
    int num_threads = 0;
    std::shared_ptr<ThreadPool> pool;
  };
  struct Pools {
    Mutex mu;
    std::map<std::string, Entry> by_name MR_GUARDED_BY(mu);
  };
  Pools& pools = OfProcess<Pools>();
  MutexLock lock(pools.mu);
  const auto [it, is_new] = pools.by_name.try_emplace(name);
  if (is_new) {
    const int parallelism = num_threads > 0 ? num_threads : default_threads;
    it->second = {num_threads, parallelism > 1 ? std::make_shared<ThreadPool>(name, parallelism) : nullptr};
  } else if (it->second.num_threads != num_threads) {
    return errors::InvalidArgument("Pool ", name,
                                   " configured previously with num_threads=", it->second.num_threads,
                                   "; cannot re-configure with num_threads=", num_threads);
  }
  return it->second.pool;
}

}  // namespace millrace
