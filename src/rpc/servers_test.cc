// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The lifetime of servers, and their services for tools and other programs.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/descriptor_database.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "distributed/tcp_socket.h"
#include "distributed/wire_testing.h"
#include "graph/testing.h"
#include "millrace/cluster.h"
#include "rpc/cluster_testing.h"
#include "rpc/register.h"
#include "tensor/cpu_allocator.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGraph[] = R"(node { name: "n" op: "NoOp" })";

class ServersTest : public ::testing::Test {
 protected:
  ServersTest() { EXPECT_EQ(RegisterGrpc(), Status()); }
  static Status OpenAt(const std::string& target, bool messages) {
    SessionOptions options;
    options.target = target;
    if (messages) options.config = ConfigWithMessages();
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, NewSession(options));
    return session->Create(GraphDefFromText(kGraph));
  }
};

TEST_F(ServersTest, AServerMayBeStartedStoppedJoinedAndDeletedInAnyState) {
  ServerOptions options;
  ASSERT_EQ(options.cluster.AddTask("w", 0, "localhost:0"), Status());
  options.job = "w";
  {
    const auto unused = Server::Make(options);
    ASSERT_TRUE(unused.ok()) << unused.status();
  }
  {
    const auto server = Server::Make(options);
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ((*server)->Join(), Status());
    EXPECT_TRUE(errors::IsFailedPrecondition((*server)->Start()));
    EXPECT_EQ((*server)->Stop(), Status());
  }
  const auto server = Server::Make(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->target(), StartsWith("grpc://localhost:"));
  EXPECT_EQ((*server)->Start(), Status());
  EXPECT_EQ((*server)->Start(), Status());
  std::thread joining([&] { EXPECT_EQ((*server)->Join(), Status()); });
  EXPECT_EQ((*server)->Stop(), Status());
  EXPECT_EQ((*server)->Stop(), Status());
  joining.join();
  EXPECT_EQ((*server)->Join(), Status());
}

TEST_F(ServersTest, AnAddressInUseIsAnErrorThatNamesTheTask) {
  ServerOptions options;
  ASSERT_EQ(options.cluster.AddTask("w", 3, "localhost:0"), Status());
  options.job = "w";
  options.task = 3;
  const auto first = Server::Make(options);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string port = (*first)->target().substr((*first)->target().rfind(':'));
  options.cluster = ClusterSpec();
  ASSERT_EQ(options.cluster.AddTask("w", 3, "localhost" + port), Status());
  const Status status = Server::Make(options).status();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:w/replica:0/task:3"));
  options.protocol = "carrier pigeon";
  EXPECT_TRUE(errors::IsNotFound(Server::Make(options).status()));
  options.task = 4;
  options.protocol = "grpc";
  EXPECT_EQ(Server::Make(options).status().message(), "Task 4 was not defined in job \"w\"");
}

// Counts of this process that grow if resources are not released.
struct Held {
  size_t threads = 0, descriptors = 0;
  int64_t tensor_bytes = 0;
  static size_t Entries(const char* folder) {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
    return count;
  }
  static Held Now() {
    return {Entries("/proc/self/task"), Entries("/proc/self/fd"), CpuAllocator().Stats().bytes_in_use};
  }
};

TEST_F(ServersTest, AThousandServersLeaveNothing) {
  ServerOptions options;
  ASSERT_EQ(options.cluster.AddTask("w", 0, "localhost:0"), Status());
  options.job = "w";
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto server = Server::Make(options);
      ASSERT_TRUE(server.ok()) << i << ": " << server.status();
      ASSERT_EQ((*server)->Start(), Status());
    }
  };
  run(20);  // objects that are created once per process exist now
  const Held before = Held::Now();
  run(1000);
  // Threads without work end after a while.
  const Status left = TestCluster::RetryWhile(
      [&] {
        const Held now = Held::Now();
        if (now.threads <= before.threads + 4 && now.descriptors <= before.descriptors + 8) return Status();
        return errors::Unavailable(now.threads, " threads and ", now.descriptors, " descriptors, before ",
                                   before.threads, " and ", before.descriptors);
      },
      [](const Status& s) { return !s.ok(); });
  EXPECT_EQ(left, Status());
  EXPECT_EQ(Held::Now().tensor_bytes, before.tensor_bytes);
}

// A peer that accepts connections and answers with something else than gRPC.
class WebServer {
 public:
  WebServer() : listening_(*ListenOnTcp("127.0.0.1", 0)) {
    thread_ = std::thread([this] {
      while (true) {
        const auto connection = AcceptOnTcp(listening_.get());
        if (!connection.ok()) return;
        WriteAll(connection->get(), "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", {},
                 std::chrono::seconds(1))
            .IgnoreError("the caller may have left");
      }
    });
  }
  ~WebServer() {
    ShutDownSocket(listening_.get());
    thread_.join();
  }
  int port() const { return PortOf(listening_); }

 private:
  const FileDescriptor listening_;
  std::thread thread_;
};

TEST_F(ServersTest, TasksWithoutAnAddressAndPeersThatAreNoTasksAreNamed) {
  WebServer web;
  for (const std::string& address :
       {std::string("no-such-host.invalid:1"), StrCat("localhost:", web.port())}) {
    ServerOptions options;
    ASSERT_EQ(options.cluster.AddTask("w", 0, "localhost:0"), Status());
    ASSERT_EQ(options.cluster.AddTask("w", 1, address), Status());
    options.job = "w";
    options.session_creation_timeout_in_ms = 1000;
    const auto server = Server::Make(options);
    ASSERT_TRUE(server.ok()) << server.status();
    ASSERT_EQ((*server)->Start(), Status());
    for (const bool messages : {false, true}) {
      const auto start = std::chrono::steady_clock::now();
      const Status status = OpenAt((*server)->target(), messages);
      EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("/job:w/replica:0/task:1"));
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    }
  }
  // The same as a target.
  SessionOptions options;
  options.target = StrCat("grpc://localhost:", web.port());
  options.operation_timeout_in_ms = 1000;
  const auto session = NewSession(options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Status status = (*session)->Create(GraphDefFromText(kGraph));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(options.target));
}

TEST_F(ServersTest, AServerRefusesAnAddressThatAnotherTaskHas) {
  ServerOptions options;
  ASSERT_EQ(options.cluster.AddTask("ps", 0, "localhost:2222"), Status());
  ASSERT_EQ(options.cluster.AddTask("worker", 1, "localhost:2222"), Status());
  options.job = "worker";
  options.task = 1;
  const auto server = Server::Make(options);
  EXPECT_TRUE(errors::IsInvalidArgument(server.status())) << server.status();
  EXPECT_THAT(server.status().message(), HasSubstr("localhost:2222: /job:worker/replica:0/task:1 and "
                                                   "/job:ps/replica:0/task:0"));
  // Port 0 is a different port for each task. A server does not check the addresses of tasks that it does not
  // use.
  ASSERT_EQ(options.cluster.AddTask("worker", 2, "localhost:0"), Status());
  ASSERT_EQ(options.cluster.AddTask("worker", 3, "localhost:0"), Status());
  options.task = 3;
  EXPECT_EQ(Server::Make(options).status(), Status());
}

TEST_F(ServersTest, ATaskAtTheAddressOfAnotherIsNotTakenForIt) {
  ServerOptions options;
  ASSERT_EQ(options.cluster.AddTask("w", 0, "localhost:0"), Status());
  options.job = "w";
  const auto first = Server::Make(options);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ((*first)->Start(), Status());
  ASSERT_EQ(options.cluster.AddTask("w", 1, (*first)->target().substr(std::string("grpc://").size())),
            Status());
  const auto second = Server::Make(options);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ((*second)->Start(), Status());
  for (const bool messages : {false, true}) {
    const Status status = OpenAt((*second)->target(), messages);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("The task that answers at the address of /job:w/replica:0/task:1 says that it is "
                          "/job:w/replica:0/task:0"));
  }
}

// Sends requests to the reflection service, as tools do to find the services of a server.
std::string AskForReflection(const std::string& target, const std::string& version,
                             const std::string& request) {
  const auto channel = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(
      &context, StrCat("/grpc.reflection.", version, ".ServerReflection/ServerReflectionInfo"), &queue);
  call->StartCall(nullptr);
  EXPECT_TRUE(next());
  const grpc::Slice slice(request);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  EXPECT_TRUE(next());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  if (!next()) return "";
  call->WritesDone(nullptr);
  next();
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(response.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& part : slices)
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  queue.Shutdown();
  return bytes;
}

TEST_F(ServersTest, ToolsFindTheServicesByReflection) {
  using wire::Bytes;
  TestCluster cluster({{"a", 1}});
  const std::string address = cluster.target("a", 0).substr(std::string("grpc://").size());
  for (const std::string version : {"v1", "v1alpha"}) {
    // list_services 7; the response: the request 2, list_services_response 6 with services 1 that have
    // names 1.
    const std::string list = AskForReflection(address, version, Bytes(7, "*"));
    EXPECT_THAT(list, StartsWith(Bytes(2, Bytes(7, "*"))));
    for (const char* service :
         {"tensorflow.MasterService", "tensorflow.WorkerService", "millrace.TaskService",
          "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"})
      EXPECT_THAT(list, HasSubstr(Bytes(1, Bytes(1, service))));
    // file_containing_symbol 4; the response: file_descriptor_response 4 with files 1.
    for (const std::string service : {"tensorflow.MasterService", "tensorflow.WorkerService",
                                      "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}) {
      const std::string asked = Bytes(4, service);
      std::string answer = AskForReflection(address, version, asked);
      ASSERT_THAT(answer, StartsWith(Bytes(2, asked)));
      google::protobuf::UnknownFieldSet response, files;
      ASSERT_TRUE(response.ParseFromString(answer));
      ASSERT_EQ(response.field_count(), 2);
      ASSERT_EQ(response.field(1).number(), 4);
      ASSERT_TRUE(files.ParseFromString(response.field(1).length_delimited()));
      // A descriptor pool builds the files, each after its dependencies.
      google::protobuf::SimpleDescriptorDatabase database;
      for (int i = 0; i < files.field_count(); ++i) {
        google::protobuf::FileDescriptorProto file;
        ASSERT_TRUE(file.ParseFromString(files.field(i).length_delimited()));
        ASSERT_TRUE(database.Add(file));
      }
      google::protobuf::DescriptorPool pool(&database);
      const auto* const found = pool.FindServiceByName(service);
      ASSERT_NE(found, nullptr) << service;
      if (service == "tensorflow.WorkerService") {
        EXPECT_EQ(found->method_count(), 15);
        EXPECT_EQ(found->FindMethodByName("RecvTensor")->input_type()->full_name(),
                  "tensorflow.RecvTensorRequest");
      }
      if (service == "tensorflow.MasterService") {
        EXPECT_EQ(found->method_count(), 10);
      }
    }
    // error_response 7 with code 1 (5: not found); also for bytes that are no message.
    EXPECT_THAT(AskForReflection(address, version, Bytes(4, "no.Such")), HasSubstr(wire::Int(1, 5)));
    EXPECT_THAT(AskForReflection(address, version, "\xff\xff"), HasSubstr("not a message"));
    EXPECT_THAT(AskForReflection(address, version, ""), HasSubstr("request is empty"));
  }
  // The health service: the response has status 1 (1: serving).
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  const grpc::internal::RpcMethod check("/grpc.health.v1.Health/Check",
                                        grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ClientContext context;
  const grpc::Slice nothing("");
  grpc::ByteBuffer response;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel.get(), check, &context, grpc::ByteBuffer(&nothing, 1), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  grpc::Slice slice;
  ASSERT_TRUE(response.TrySingleSlice(&slice).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()), wire::Int(1, 1));
}

}  // namespace
}  // namespace millrace
