// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/protocol.h"

#include <utility>

#include "base/mutex.h"
#include "base/strings.h"
#include "distributed/remote_session.h"
#include "distributed/task.h"
#include "session/session_factory.h"

namespace millrace {
namespace {

struct Protocols {
  Mutex mu;
  std::map<std::string, Protocol> by_name MR_GUARDED_BY(mu);
};

Protocols& GetProtocols() {
  static auto* const protocols = new Protocols;
  return *protocols;
}

std::string Upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

// A separate connection for each session.
StatusOr<RemoteMaster> Connect(const std::string& name, const SessionOptions& options) {
  MR_ASSIGN_OR_RETURN(const Protocol protocol, FindProtocol(name));
  std::string_view address = options.target;
  ConsumePrefix(&address, StrCat(name, "://"));
  if (address.empty()) return errors::InvalidArgument("The target ", options.target, " has no address");
  TransportOptions transport_options;
  MR_ASSIGN_OR_RETURN(transport_options.security, LoadSecurity(ClusterSecurity::FromEnvironment()));
  MR_ASSIGN_OR_RETURN(auto transport,
                      protocol.connect({{options.target, std::string(address)}}, transport_options));
  return RemoteMaster{std::move(transport), options.target};
}

}  // namespace

Status RegisterProtocol(const std::string& name, Protocol protocol) {
  Protocols& protocols = GetProtocols();
  {
    MutexLock lock(protocols.mu);
    if (!protocols.by_name.emplace(name, std::move(protocol)).second)
      return errors::AlreadyExists("Two protocols are being registered under ", name);
  }
  SessionFactory factory;
  factory.accepts = [prefix = StrCat(name, "://")](const SessionOptions& options) {
    return options.target.starts_with(prefix);
  };
  factory.make = [name](const SessionOptions& options) -> StatusOr<std::unique_ptr<Session>> {
    if (!WantsMessages(options)) {
      if (const std::shared_ptr<Task> here = LocalTasks::Get().Find(options.target); here != nullptr)
        return here->NewSession(options);
    }
    MR_ASSIGN_OR_RETURN(RemoteMaster master, Connect(name, options));
    return std::unique_ptr<Session>(std::make_unique<RemoteSession>(std::move(master), options));
  };
  factory.reset = [name](const SessionOptions& options,
                         const std::vector<std::string>& containers) -> Status {
    if (const std::shared_ptr<Task> here = LocalTasks::Get().Find(options.target); here != nullptr)
      return here->master().Reset(containers, options.device_filters);
    MR_ASSIGN_OR_RETURN(const RemoteMaster master, Connect(name, options));
    return ResetRemotely(master, options, containers);
  };
  return RegisterSessionFactory(StrCat(Upper(name), "_SESSION"), std::move(factory));
}

StatusOr<Protocol> FindProtocol(const std::string& name) {
  Protocols& protocols = GetProtocols();
  MutexLock lock(protocols.mu);
  const auto it = protocols.by_name.find(name);
  if (it != protocols.by_name.end()) return it->second;
  std::string known;
  for (const auto& [other, protocol] : protocols.by_name) known += known.empty() ? other : ", " + other;
  return errors::NotFound("No server factory registered for the given ServerDef: protocol \"", name,
                          "\". The available server factories are: [ ", known, " ]");
}

}  // namespace millrace
