// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace server: a task of a cluster; millrace cluster: the state of tasks.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <memory>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/end_signals.h"
#include "cli/options.h"
#include "display/text.h"
#include "millrace/cluster.h"

namespace millrace::cli {
namespace {

struct ServerCommandOptions {
  std::string cluster;
  std::string job;
  int task = -1;
  std::string listen;
  bool slurm = false;
  int first_port = 8888;
  double session_timeout = 60;
  double session_gc = 0;
  double peer_timeout = 5;
  int threads = 0;
  int64_t shared_memory_mib = TensorTransfers().shared_memory_bytes >> 20;
  int data_port = 0;
  ClusterSecurity security = ClusterSecurity::FromEnvironment();
  std::vector<std::string> denied_ops;
};

// From the flags or, if they are not set, from TF_CONFIG.
StatusOr<ClusterTask> ReadClusterTask(const ServerCommandOptions& options) {
  ClusterTask task;
  if (options.slurm) {
    std::vector<std::pair<std::string, int>> jobs;
    for (const std::string_view part : StrSplitSkipEmpty(options.cluster, ',')) {
      const size_t equals = std::min(part.find('='), part.size());
      const auto count = SafeStringToInt32(part.substr(std::min(equals + 1, part.size())));
      if (!count || *count < 1)
        return errors::InvalidArgument("With --slurm, --cluster is written \"ps=1,worker=3\", not \"",
                                       options.cluster, "\"");
      jobs.emplace_back(part.substr(0, equals), *count);
    }
    return ClusterTask::FromSlurm(jobs, options.first_port);
  }
  if (!options.cluster.empty()) {
    MR_ASSIGN_OR_RETURN(task.cluster, ClusterSpec::Parse(options.cluster));
  } else {
    MR_ASSIGN_OR_RETURN(task, ClusterTask::FromTfConfig(std::getenv("TF_CONFIG")));
  }
  if (!options.job.empty()) task.job = options.job;
  if (options.task >= 0) task.task = options.task;
  if (task.job.empty()) return errors::InvalidArgument("--job is missing");
  return task;
}

StatusOr<ExitCode> Serve(const ServerCommandOptions& options, const Context& context) {
  // Required on the command line if the environment does not set it.
  if (const char* const config = std::getenv("TF_CONFIG");
      options.cluster.empty() && !options.slurm && (config == nullptr || *config == '\0'))
    return context.Usage("Neither --cluster nor the environment variable TF_CONFIG describes the cluster");
  MR_ASSIGN_OR_RETURN(const ClusterTask task, ReadClusterTask(options));
  ServerOptions server_options;
  server_options.cluster = task.cluster;
  server_options.job = task.job;
  server_options.task = task.task;
  server_options.listen = options.listen;
  server_options.security = options.security;
  server_options.denied_ops = options.denied_ops;
  server_options.session_creation_timeout_in_ms = static_cast<int64_t>(options.session_timeout * 1000);
  server_options.session_gc_in_ms = static_cast<int64_t>(options.session_gc * 1000);
  server_options.peer_timeout_in_ms = static_cast<int64_t>(options.peer_timeout * 1000);
  server_options.transfers.shared_memory_bytes = options.shared_memory_mib << 20;
  server_options.transfers.sockets = options.data_port >= 0;
  server_options.transfers.socket_port = std::max(options.data_port, 0);
  server_options.session.inter_op_parallelism_threads = options.threads;
  const std::string missing = server_options.MissingProtection();
  const EndSignals signals;
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Make(server_options));
  MR_RETURN_IF_ERROR(server->Start());
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Field("task", server->task()).Field("target", server->target());
    if (!missing.empty()) json.Field("warning", missing);
    json.EndObject();
    context.Print(json);
  } else {
    context.out << "millrace: " << server->task() << " is ready at " << server->target()
                << (missing.empty() ? "" : ", ") << missing << std::endl;
  }
  context.out.flush();
  signals.Wait();
  MR_RETURN_IF_ERROR(server->Stop());
  return ExitCode::kOk;
}

// ---- The state of tasks

using google::protobuf::Struct;
using google::protobuf::Value;

std::string TextOf(const Struct& object, const std::string& key) {
  const auto it = object.fields().find(key);
  return it == object.fields().end() ? "" : it->second.string_value();
}

int64_t NumberOf(const Struct& object, const std::string& key) {
  const auto it = object.fields().find(key);
  return it == object.fields().end() ? 0 : static_cast<int64_t>(it->second.number_value());
}

void PrintTask(const Struct& task, std::ostream& out) {
  out << std::left << std::setw(34) << Printable(TextOf(task, "task"));
  if (const std::string error = TextOf(task, "error"); !error.empty()) {
    out << " " << Printable(error) << "\n";
    return;
  }
  out << std::right << std::setw(8) << NumberOf(task, "uptime_ms") / 1000 << " s" << std::setw(10)
      << NumberOf(task, "sessions") << std::setw(10) << NumberOf(task, "worker_sessions") << std::setw(8)
      << NumberOf(task, "graphs") << std::setw(7)
      << NumberOf(task, "graph_runs") + NumberOf(task, "session_steps") << std::setw(11)
      << std::max(NumberOf(task, "oldest_run_ms"), NumberOf(task, "oldest_session_step_ms")) << " ms"
      << std::setw(14) << NumberOf(task, "bytes_sent") << std::setw(14) << NumberOf(task, "bytes_received")
      << std::setw(14) << NumberOf(task, "tensor_bytes") << "\n";
  const auto devices = task.fields().find("devices");
  if (devices == task.fields().end()) return;
  for (const Value& device : devices->second.list_value().values()) {
    const Struct& d = device.struct_value();
    out << "  " << Printable(TextOf(d, "name")) << "  incarnation " << Printable(TextOf(d, "incarnation"))
        << "\n";
  }
}

StatusOr<ExitCode> ShowStatus(const std::string& target, double timeout, const Context& context) {
  const std::string full = target.find("://") == std::string::npos ? "grpc://" + target : target;
  MR_ASSIGN_OR_RETURN(const std::string text, DescribeCluster(full, static_cast<int64_t>(timeout * 1000)));
  if (context.json) {
    context.out << text << "\n";
    return ExitCode::kOk;
  }
  Struct state;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(text, &state, google::protobuf::util::JsonParseOptions());
  if (!parsed.ok()) return errors::Internal(full, " has not returned JSON: ", parsed.ToString());
  context.out << std::left << std::setw(34) << "task" << std::right << std::setw(10) << "up" << std::setw(10)
              << "sessions" << std::setw(10) << "worker's" << std::setw(8) << "graphs" << std::setw(7)
              << "steps" << std::setw(14) << "oldest step" << std::setw(14) << "bytes sent" << std::setw(14)
              << "received" << std::setw(14) << "in tensors"
              << "\n";
  bool all = true;
  const auto tasks = state.fields().find("tasks");
  if (tasks != state.fields().end()) {
    for (const Value& task : tasks->second.list_value().values()) {
      PrintTask(task.struct_value(), context.out);
      all = all && TextOf(task.struct_value(), "error").empty();
    }
  }
  return all ? ExitCode::kOk : ExitCode::kDiffers;
}

}  // namespace

void AddServerCommands(Commands* commands) {
  const auto options = std::make_shared<ServerCommandOptions>();
  const Command server =
      commands->Add("server", "Run a task of a cluster, until SIGTERM or SIGINT",
                    [options](const Context& context) { return Serve(*options, context); });
  server.AddOption("--cluster", options->cluster,
                   "The tasks: ps=host:port,worker=host:port,host:port; default: from TF_CONFIG");
  server.AddOption("--job", options->job, "The job of this task");
  server.AddOption("--task", options->task, "The number of this task in its job").Check(NotNegative());
  server.AddOption("--listen", options->listen,
                   "The address to listen at, 0.0.0.0 for all of this machine; default: 127.0.0.1");
  server.AddFlag("--slurm", options->slurm,
                 "The tasks are the processes of this step of Slurm; --cluster is then ps=1,worker=3");
  server.AddOption("--first-port", options->first_port, "With --slurm: the port of the first task on a node");
  server
      .AddOption("--session-timeout", options->session_timeout,
                 "Seconds that the creation of a session waits for tasks that do not answer")
      .Check(Positive());
  server
      .AddOption("--session-gc-seconds,--session_gc_seconds", options->session_gc,
                 "Seconds without a call of its client after which a session is closed; default: never")
      .Check(Positive());
  server
      .AddOption("--peer-timeout", options->peer_timeout,
                 "Seconds of silence of a task before its steps are ended")
      .Check(Positive());
  server.AddOption("--token-file", options->security.token_file,
                   "File with the token that every call must present; default: MILLRACE_TOKEN_FILE");
  server.AddOption("--tls-cert", options->security.certificate_file,
                   "The certificate of this task (PEM): messages are encrypted; MILLRACE_TLS_CERT");
  server.AddOption("--tls-key", options->security.key_file, "Its private key (PEM); MILLRACE_TLS_KEY");
  server.AddOption("--tls-ca", options->security.ca_file,
                   "CA that signs the certificates of other tasks and clients (PEM); peers without a "
                   "certificate are refused; MILLRACE_TLS_CA");
  server
      .AddOption("--deny-ops,--deny_ops", options->denied_ops,
                 "Ops that are refused in graphs of clients: file_access, network, callback or names of ops")
      .Separator(',');
  server
      .AddOption("--shared-memory", options->shared_memory_mib,
                 "MiB of shared memory for tensors to each other task on the same machine; 0: none")
      .Check(Between(0, 1 << 24));
  server
      .AddOption("--data-port", options->data_port,
                 "Port of separate connections for large tensors; 0: a free one, -1: none; not used with TLS")
      .Check(Between(-1, 65535));
  server.AddOption("--threads", options->threads, "Threads for nodes; default: all cores");

  const Command cluster = commands->Group("cluster", "Show a cluster");
  const auto target = std::make_shared<std::string>();
  const auto timeout = std::make_shared<double>(5);
  const Command status = commands->Add(
      "status",
      "The tasks with their devices, sessions, graphs and steps; exit code 3 if one does not answer",
      [target, timeout](const Context& context) { return ShowStatus(*target, *timeout, context); }, cluster);
  status.AddOption("target", *target, "A task of the cluster: grpc://host:port").Required();
  status.AddOption("--timeout", *timeout, "Seconds to wait for answers").Check(Positive()).ShowDefault();
}

}  // namespace millrace::cli
