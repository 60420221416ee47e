// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Access to a task: tokens, certificates and denied ops. The keys and certificates are those of
// tests/data/tls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "graph/testing.h"
#include "millrace/cluster.h"
#include "rpc/cluster_testing.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/tensorflow_server.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string Tls(const std::string& name) { return StrCat(MR_TEST_DATA, "/tls/", name); }

ClusterSecurity Certificate(const std::string& name, const std::string& authority = "ca") {
  return {.token_file = {},
          .ca_file = Tls(authority + ".pem"),
          .certificate_file = Tls(name + ".pem"),
          .key_file = Tls(name + ".key")};
}

std::string TokenFile(const std::string& token) {
  std::string path = StrCat(::testing::TempDir(), "security_test_", token);
  std::ofstream(path) << token << "\n";
  return path;
}

ServerOptions With(const ClusterSecurity& security) {
  ServerOptions options;
  options.security = security;
  options.session_creation_timeout_in_ms = 20'000;
  return options;
}

// Security settings of clients in this process during the lifetime of this object.
class ClientSecurity {
 public:
  explicit ClientSecurity(const ClusterSecurity& security) {
    Set("MILLRACE_TOKEN_FILE", security.token_file);
    Set("MILLRACE_TLS_CA", security.ca_file);
    Set("MILLRACE_TLS_CERT", security.certificate_file);
    Set("MILLRACE_TLS_KEY", security.key_file);
  }
  ~ClientSecurity() {
    for (const char* name :
         {"MILLRACE_TOKEN_FILE", "MILLRACE_TLS_CA", "MILLRACE_TLS_CERT", "MILLRACE_TLS_KEY"})
      unsetenv(name);
  }
  ClientSecurity(const ClientSecurity&) = delete;
  ClientSecurity& operator=(const ClientSecurity&) = delete;

 private:
  static void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
};

// A product that a remote session computes on the ps and fetches from the worker.
StatusOr<float> Compute(const TestCluster& cluster, const std::string& more = "") {
  SessionOptions options;
  options.target = cluster.target("worker", 0);
  options.config = ConfigWithMessages();
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, NewSession(options));
  MR_RETURN_IF_ERROR(session->Create(GraphDefFromText(StrCat(R"(
    node { name: "x" op: "Placeholder" device: "/job:worker/task:0" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "y" op: "Square" input: "x" device: "/job:ps/task:0" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "z" op: "Neg" input: "y" device: "/job:worker/task:0" attr { key: "T" value { type: DT_FLOAT } } })",
                                                             more))));
  std::vector<Tensor> out;
  MR_RETURN_IF_ERROR(session->Run({{"x", Tensor::Scalar(3.0f)}}, {"z"}, {}, &out));
  return out[0].scalar<float>();
}

TEST(SecurityTest, ATokenIsAskedOfClientsAndTasks) {
  const ClusterSecurity token{.token_file = TokenFile("a-secret-of-24-characters")};
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, With(token));
  {
    const ClientSecurity client(token);
    EXPECT_EQ(Compute(cluster).value_or(0), -9);
    EXPECT_TRUE(DescribeCluster(cluster.target("worker", 0)).ok());
  }
  for (const ClusterSecurity& wrong :
       {ClusterSecurity{}, ClusterSecurity{.token_file = TokenFile("another-secret-of-27-characters")}}) {
    const ClientSecurity client(wrong);
    const Status refused = Compute(cluster).status();
    EXPECT_TRUE(errors::IsUnauthenticated(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("without the token"));
    EXPECT_TRUE(errors::IsUnauthenticated(DescribeCluster(cluster.target("worker", 0)).status()));
  }
}

TEST(SecurityTest, TasksWithAnotherTokenAreNoPeers) {
  const ClusterSecurity ours{.token_file = TokenFile("a-secret-of-24-characters")};
  const ClusterSecurity theirs{.token_file = TokenFile("another-secret-of-27-characters")};
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, With(ours));
  cluster.Stop("ps", 0);
  ServerOptions other = With(theirs);
  other.cluster = cluster.spec();
  other.job = "ps";
  const auto ps = Server::Make(other);
  ASSERT_TRUE(ps.ok()) << ps.status();
  ASSERT_EQ((*ps)->Start(), Status());
  const ClientSecurity client(ours);
  const Status refused = Compute(cluster).status();
  EXPECT_TRUE(errors::IsUnauthenticated(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/job:ps/replica:0/task:0"));
}

TEST(SecurityTest, CertificatesOfBothSidesAreChecked) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, With(Certificate("task")));
  {
    const ClientSecurity client(Certificate("elsewhere"));  // any that the authority has signed
    EXPECT_EQ(Compute(cluster).value_or(0), -9);
  }
  ClusterSecurity anonymous;
  anonymous.ca_file = Tls("ca.pem");
  for (const ClusterSecurity& wrong :
       {ClusterSecurity{}, anonymous, Certificate("stranger"), Certificate("stranger", "other_ca"),
        Certificate("task", "other_ca")}) {
    const ClientSecurity client(wrong);
    const Status refused = DescribeCluster(cluster.target("worker", 0), 3000).status();
    EXPECT_TRUE(errors::IsUnavailable(refused) || errors::IsDeadlineExceeded(refused)) << refused;
  }
}

TEST(SecurityTest, ACertificateNamesTheHostOfItsTask) {
  TestCluster cluster({{"worker", 1}}, With(Certificate("elsewhere")));
  const ClientSecurity client(Certificate("task"));
  const Status refused = DescribeCluster(cluster.target("worker", 0), 3000).status();
  EXPECT_TRUE(errors::IsUnavailable(refused) || errors::IsDeadlineExceeded(refused)) << refused;
}

TEST(SecurityTest, WithoutAnAuthorityOnlyTheServerIsChecked) {
  ClusterSecurity server = Certificate("task");
  server.ca_file.clear();
  TestCluster cluster({{"worker", 1}}, With(server));
  ClusterSecurity anonymous;
  anonymous.ca_file = Tls("ca.pem");
  const ClientSecurity client(anonymous);
  const auto state = DescribeCluster(cluster.target("worker", 0));
  EXPECT_TRUE(state.ok()) << state.status();
}

TEST(SecurityTest, KeysThatDoNotFitAreErrors) {
  ServerOptions options = With(Certificate("task"));
  options.job = "worker";
  ASSERT_EQ(options.cluster.AddTask("worker", 0, "localhost:0"), Status());
  options.security.key_file = Tls("stranger.key");
  EXPECT_FALSE(Server::Make(options).ok());
  options.security.key_file = "/nowhere";
  EXPECT_TRUE(errors::IsNotFound(Server::Make(options).status()));
}

TEST(SecurityTest, AServerDefNamesFilesAndDeniedOps) {
  tensorflow::ServerDef def;
  def.set_job_name("worker");
  def.set_protocol("grpc");
  tensorflow::JobDef& job = *def.mutable_cluster()->add_job();
  job.set_name("worker");
  (*job.mutable_tasks())[0] = StrCat("localhost:", FreePort());
  tensorflow::ServerProtection& protection = *def.mutable_protection();
  protection.set_token_file(TokenFile("a-secret-of-24-characters"));
  protection.set_ca_file(Tls("ca.pem"));
  protection.set_certificate_file(Tls("task.pem"));
  protection.set_key_file(Tls("task.key"));
  protection.add_denied_op("file_access");
  const auto options = ServerOptions::FromProto(def);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->denied_ops, std::vector<std::string>{"file_access"});
  const auto server = Server::Make(*options);
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_EQ((*server)->Start(), Status());
  ClusterSecurity client = Certificate("elsewhere");
  {
    const ClientSecurity without(client);
    EXPECT_TRUE(errors::IsUnauthenticated(DescribeCluster((*server)->target()).status()));
  }
  client.token_file = protection.token_file();
  const ClientSecurity with(client);
  const auto state = DescribeCluster((*server)->target());
  EXPECT_TRUE(state.ok()) << state.status();
  protection.set_token_file("/nowhere");
  EXPECT_TRUE(errors::IsNotFound(Server::Make(*ServerOptions::FromProto(def)).status()));
}

TEST(SecurityTest, AccessFromOtherMachinesIsReported) {
  ServerOptions options;
  EXPECT_EQ(options.MissingProtection(), "") << "it listens on loopback";
  for (const char* listen : {"0.0.0.0", "10.0.0.1", "[::]"}) {
    options = {};
    options.listen = listen;
    EXPECT_THAT(options.MissingProtection(), HasSubstr("open to everybody who reaches it"));
    options.security = Certificate("task");
    EXPECT_EQ(options.MissingProtection(), "");
    options.security.ca_file.clear();
    EXPECT_THAT(options.MissingProtection(), HasSubstr("open to everybody")) << "callers are not checked";
    options.security = {.token_file = "token"};
    EXPECT_THAT(options.MissingProtection(), HasSubstr("unencrypted"));
  }
  options = {};
  setenv("MILLRACE_LISTEN", "0.0.0.0", 1);
  EXPECT_THAT(options.MissingProtection(), HasSubstr("open to everybody who reaches it"));
  unsetenv("MILLRACE_LISTEN");
}

TEST(SecurityTest, DeniedOpsAreRefusedByMasterAndWorker) {
  constexpr char kRead[] = R"(
    node { name: "name" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
           attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape {} string_val: "/etc/hostname" } } } }
    node { name: "file" op: "ReadFile" input: "name" device: "/job:ps/task:0" })";
  ServerOptions options;
  options.denied_ops = {"file_access"};
  TestCluster all({{"ps", 1}, {"worker", 1}}, options);
  const Status refused = Compute(all, kRead).status();
  EXPECT_TRUE(errors::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(Compute(all).value_or(0), -9);

  // A master that denies nothing does not help: the ps does.
  TestCluster some({{"ps", 1}, {"worker", 1}});
  some.Stop("ps", 0);
  options.cluster = some.spec();
  options.job = "ps";
  const auto ps = Server::Make(options);
  ASSERT_TRUE(ps.ok()) << ps.status();
  ASSERT_EQ((*ps)->Start(), Status());
  SessionOptions session_options;
  session_options.target = some.target("worker", 0);
  const auto session = NewSession(session_options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Create(GraphDefFromText(kRead)), Status());
  std::vector<Tensor> out;
  const Status at_ps = (*session)->Run({}, {"file"}, {}, &out);
  EXPECT_TRUE(errors::IsPermissionDenied(at_ps)) << at_ps;
}

}  // namespace
}  // namespace millrace
