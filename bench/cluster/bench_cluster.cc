// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between two processes of one machine, and steps on them. The other process is forked at the start.
//
//   recv_tensor/BYTES     RecvTensor of a tensor of so many bytes in one message (counter bytes_per_second)
//   recv_chunks/BYTES     the same in chunks, each a message
//   recv_shared/BYTES     the same through shared memory
//   bare_unary/BYTES      their rival: a synchronous unary call of gRPC whose response has so many bytes
//   raw_tcp/BYTES         so many bytes through a socket into a buffer that is used again
//   memcpy/BYTES          what a copy of so many bytes costs
//   step_empty            a step of one NoOp at the other task, by calls to the master of this process
//   step_feed_fetch       one float there and back
//   step_direct           a feed and a fetch in a direct session
//   step_own_task         the same in a session whose target is the server of this process
//
// With --simulate: a master with 10 to 10,000 tasks that answer and compute nothing, see simulate.h.
#include <benchmark/benchmark.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include "base/notification.h"
#include "cluster/simulate.h"
#include "distributed/message_channel.h"
#include "distributed/remote_worker.h"
#include "distributed/shared_memory_channel.h"
#include "distributed/tensor_channels.h"
#include "distributed/tensor_message.h"
#include "millrace/cluster.h"
#include "rpc/grpc_listener.h"
#include "rpc/grpc_transport.h"
#include "rpc/register.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

struct Ports {
  int here = 0, there = 0, tensors = 0, bare = 0, raw = 0;
};
Ports ports;

int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

void Die(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

ServerOptions Options(int task) {
  ServerOptions options;
  options.cluster = *ClusterSpec::Parse(StrCat("w=localhost:", ports.here, ",localhost:", ports.there));
  options.job = "w";
  options.task = task;
  return options;
}

// ---- The other process

// Answers a call with as many bytes as its request, a number, says.
class BareService : public grpc::Service {
 public:
  BareService() {
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/bench.Bare/Call", grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<BareService, grpc::ByteBuffer, grpc::ByteBuffer>(
            [](BareService* service, grpc::ServerContext*, const grpc::ByteBuffer* request,
               grpc::ByteBuffer* response) {
              grpc::Slice slice;
              if (!request->TrySingleSlice(&slice).ok()) return grpc::Status::CANCELLED;
              const std::string text(reinterpret_cast<const char*>(slice.begin()), slice.size());
              std::string& bytes = text.size() > 3 ? service->large_ : service->small_;
              bytes.resize(static_cast<size_t>(std::atoll(text.c_str())));
              grpc::Slice out(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE);
              *response = grpc::ByteBuffer(&out, 1);
              return grpc::Status::OK;
            },
            this)));
  }

 private:
  std::string small_, large_;
};

// The ways of large tensors of one end.
std::unique_ptr<TensorChannels> Channels(Transport& transport, std::shared_ptr<HeldTensors> held,
                                         bool shared) {
  std::vector<std::unique_ptr<TensorChannel>> channels;
  auto messages = std::make_unique<MessageChannel>(transport, MessageChannel::Options{0, 4 << 20});
  if (shared) {
    channels.push_back(std::make_unique<SharedMemoryChannel>(
        held, *messages, SharedMemoryChannel::Options{.max_bytes = 1 << 30}));
  }
  channels.push_back(std::move(messages));
  return std::make_unique<TensorChannels>(std::move(held), std::move(channels));
}

// Answers RecvTensor and RecvChunk as a task does.
class TensorService {
 public:
  void Handle(Method method, const MessageBytes& bytes, Reply reply) {
    if (method == Method::kRecvChunk) {
      const auto chunk = ChunkOf(*held_, bytes);
      return reply(chunk.status(), chunk.value_or(MessageBytes()));
    }
    tensorflow::RecvTensorRequest request;
    if (method != Method::kRecvTensor || !bytes.ParseInto(&request)) return reply(Status(), {});
    const auto size = static_cast<size_t>(std::atoll(request.rendezvous_key().c_str()));
    Tensor& tensor = tensors_[size];
    if (tensor.num_bytes() != size) {
      tensor = Tensor(DataType::kUint8, TensorShape({static_cast<int64_t>(size)}));
      std::memset(tensor.raw_data(), 1, size);
    }
    const std::string channels = TensorChannels::IntroductionsOf(&request);
    if (!channels.empty()) {
      steps_.CleanUp(request.step_id() - 1);
      auto offer = channels_->Offer(channels, steps_, request.step_id(), tensor, 1);
      Die(offer.status());
      if (*offer) return reply(Status(), **std::move(offer));
    }
    const auto response = TensorToResponse(tensor, false, 1);
    reply(response.status(), response.value_or(MessageBytes()));
  }

 private:
  const std::shared_ptr<Transport> transport_ = *ConnectWithGrpc({}, {});
  const std::shared_ptr<HeldTensors> held_ = HeldTensors::Make();
  const std::unique_ptr<TensorChannels> channels_ = Channels(*transport_, held_, true);
  TaskSteps steps_{"there", nullptr};
  std::map<size_t, Tensor> tensors_;
};

int ListenOn(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  Die(bound && ::listen(fd, 8) == 0 ? Status() : errors::Internal("raw_tcp: no socket"));
  return fd;
}

// Writes as many bytes as each number that it reads.
void ServeRawTcp(int listening) {
  std::string bytes;
  while (true) {
    const int fd = ::accept(listening, nullptr, nullptr);
    int64_t wanted = 0;
    while (fd >= 0 && ::recv(fd, &wanted, sizeof(wanted), MSG_WAITALL) == sizeof(wanted)) {
      bytes.resize(static_cast<size_t>(wanted));
      for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t more = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) break;
        sent += static_cast<size_t>(more);
      }
    }
    ::close(fd);
  }
}

void RunOtherProcess() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto server = Server::Make(Options(1));
  Die(server.status());
  Die((*server)->Start());
  TensorService tensors;
  auto listener = ListenWithGrpc(StrCat("127.0.0.1:", ports.tensors), {});
  Die(listener.status());
  (*listener)->Start([&tensors](Method method, const MessageBytes& bytes, int64_t, CancellationManager&,
                                Reply reply) { tensors.Handle(method, bytes, std::move(reply)); });
  std::thread([fd = ListenOn(ports.raw)] { ServeRawTcp(fd); }).detach();
  BareService bare;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort(StrCat("127.0.0.1:", ports.bare), grpc::InsecureServerCredentials());
  builder.RegisterService(&bare);
  const auto bare_server = builder.BuildAndStart();
  Die((*server)->Join());
}

// ---- Messages

enum class Way { kMessage, kChunks, kShared };

void RecvTensors(benchmark::State& state, Way way) {
  const std::string task = "there";
  const auto transport = *ConnectWithGrpc({{task, StrCat("localhost:", ports.tensors)}}, {});
  const auto channels = Channels(*transport, HeldTensors::Make(), way == Way::kShared);
  const Rendezvous::Key key{StrCat(state.range(0)), 1};
  static int64_t step_id = 0;
  for (auto _ : state) {
    Notification answered;
    RecvTensorFrom(*transport, way == Way::kMessage ? nullptr : channels.get(), task, ++step_id, key, nullptr,
                   [&](const Status& status, const Tensor& tensor, bool) {
                     Die(status);
                     benchmark::DoNotOptimize(tensor.raw_data());
                     answered.Notify();
                   });
    answered.Wait();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
  channels->Stop();
}
void BM_RecvTensor(benchmark::State& state) { RecvTensors(state, Way::kMessage); }
BENCHMARK(BM_RecvTensor)->Name("recv_tensor")->Arg(8)->Arg(256 << 10)->Arg(64 << 20)->UseRealTime();
void BM_RecvChunks(benchmark::State& state) { RecvTensors(state, Way::kChunks); }
BENCHMARK(BM_RecvChunks)->Name("recv_chunks")->Arg(64 << 20)->UseRealTime();
void BM_RecvShared(benchmark::State& state) { RecvTensors(state, Way::kShared); }
BENCHMARK(BM_RecvShared)->Name("recv_shared")->Arg(256 << 10)->Arg(1 << 20)->Arg(64 << 20)->UseRealTime();

void BM_RawTcp(benchmark::State& state) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(ports.raw));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return state.SkipWithError("no connection");
  const int64_t size = state.range(0);
  std::string buffer(static_cast<size_t>(size), 'a');
  for (auto _ : state) {
    ::send(fd, &size, sizeof(size), MSG_NOSIGNAL);
    for (size_t got = 0; got < buffer.size();) {
      const ssize_t more = ::recv(fd, buffer.data() + got, buffer.size() - got, 0);
      if (more <= 0) return state.SkipWithError("the connection is closed");
      got += static_cast<size_t>(more);
    }
  }
  ::close(fd);
  state.SetBytesProcessed(state.iterations() * size);
}
BENCHMARK(BM_RawTcp)->Name("raw_tcp")->Arg(64 << 20)->UseRealTime();

void BM_BareUnary(benchmark::State& state) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(StrCat("localhost:", ports.bare),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const grpc::internal::RpcMethod method("/bench.Bare/Call", grpc::internal::RpcMethod::NORMAL_RPC);
  const std::string text = StrCat(state.range(0));
  const grpc::Slice slice(text);
  const grpc::ByteBuffer request(&slice, 1);
  for (auto _ : state) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    grpc::ByteBuffer response;
    const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
        channel.get(), method, &context, request, &response);
    if (!status.ok()) return state.SkipWithError(status.error_message().c_str());
    benchmark::DoNotOptimize(response.Length());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_BareUnary)->Name("bare_unary")->Arg(8)->Arg(64 << 20)->UseRealTime();

void BM_Memcpy(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  std::string from(size, 'a'), to(size, 'b');
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Memcpy)->Name("memcpy")->Arg(64 << 20)->UseRealTime();

// ---- Steps

tensorflow::GraphDef StepGraph(const std::string& device) {
  tensorflow::GraphDef graph;
  const auto add = [&](const char* name, const char* op, const char* input, const char* type_attr) {
    tensorflow::NodeDef* const node = graph.add_node();
    node->set_name(name);
    node->set_op(op);
    node->set_device(device);
    if (*input != '\0') node->add_input(input);
    if (*type_attr != '\0') (*node->mutable_attr())[type_attr].set_type(tensorflow::DT_FLOAT);
  };
  add("nothing", "NoOp", "", "");
  add("x", "Placeholder", "", "dtype");
  add("y", "Neg", "x", "T");
  return graph;
}

std::unique_ptr<Session> MakeSession(const std::string& target, const std::string& device) {
  SessionOptions options;
  options.target = target;
  auto session = NewSession(options);
  Die(session.status());
  Die((*session)->Create(StepGraph(device)));
  return *std::move(session);
}

void RunStep(benchmark::State& state, const std::string& target, const std::string& device, bool empty) {
  const auto session = MakeSession(target, device);
  CallableOptions wanted;
  if (empty) {
    wanted.targets = {"nothing"};
  } else {
    wanted.feeds = {"x"};
    wanted.fetches = {"y"};
  }
  const auto callable = session->MakeCallable(wanted);
  Die(callable.status());
  std::vector<Tensor> feeds, out;
  if (!empty) feeds.push_back(Tensor::Scalar(1.f));
  for (auto _ : state) Die(session->RunCallable(*callable, feeds, &out, nullptr));
}

std::string here_target;
void BM_StepEmpty(benchmark::State& state) { RunStep(state, here_target, "/job:w/task:1", true); }
BENCHMARK(BM_StepEmpty)->Name("step_empty")->UseRealTime();
void BM_StepFeedFetch(benchmark::State& state) { RunStep(state, here_target, "/job:w/task:1", false); }
BENCHMARK(BM_StepFeedFetch)->Name("step_feed_fetch")->UseRealTime();
void BM_StepDirect(benchmark::State& state) { RunStep(state, "", "", false); }
BENCHMARK(BM_StepDirect)->Name("step_direct")->UseRealTime();
void BM_StepOwnTask(benchmark::State& state) { RunStep(state, here_target, "/job:w/task:0", false); }
BENCHMARK(BM_StepOwnTask)->Name("step_own_task")->UseRealTime();

}  // namespace

int Main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--simulate") == 0) {
    Die(Simulate());
    return 0;
  }
  ports = {FreePort(), FreePort(), FreePort(), FreePort(), FreePort()};
  const pid_t child = fork();  // before there are threads
  Die(RegisterGrpc());
  if (child == 0) {
    RunOtherProcess();
    return 0;
  }
  auto server = Server::Make(Options(0));
  Die(server.status());
  Die((*server)->Start());
  here_target = (*server)->target();
  MakeSession(here_target, "/job:w/task:1");  // waits for the other
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  server->reset();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
