// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Large tensors between servers, by each channel.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "distributed/task.h"
#include "graph/testing.h"
#include "millrace/cluster.h"
#include "rpc/cluster_testing.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

constexpr int kElements = 100'001;

// The ps counts, a worker squares, the other one fetches.
constexpr char kGraph[] = R"(
  node { name: "end" op: "Placeholder" device: "/job:worker/task:0"
         attr { key: "dtype" value { type: DT_INT64 } } }
  node { name: "zero" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_INT64 } }
         attr { key: "value" value { tensor { dtype: DT_INT64 tensor_shape { } int64_val: 0 } } } }
  node { name: "one" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_INT64 } }
         attr { key: "value" value { tensor { dtype: DT_INT64 tensor_shape { } int64_val: 1 } } } }
  node { name: "range" op: "Range" input: "zero" input: "end" input: "one" device: "/job:ps/task:0"
         attr { key: "Tidx" value { type: DT_INT64 } } }
  node { name: "square" op: "Square" input: "range" device: "/job:worker/task:1"
         attr { key: "T" value { type: DT_INT64 } } }
  node { name: "out" op: "Identity" input: "square" device: "/job:worker/task:0"
         attr { key: "T" value { type: DT_INT64 } } })";

// Whether this process has memory that tasks share.
bool HasSharedMemory() {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find("/memfd:millrace") != std::string::npos;
}

void ExpectSquares(const TensorTransfers& transfers) {
  ServerOptions options;
  options.transfers = transfers;
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, options);
  SessionOptions session_options;
  session_options.target = cluster.target("worker", 0);
  const auto session = NewSession(session_options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Create(GraphDefFromText(kGraph)), Status());
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> out;
    ASSERT_EQ((*session)->Run({{"end", Tensor::Scalar(int64_t{kElements})}}, {"out"}, {}, &out), Status());
    ASSERT_EQ(out[0].shape(), TensorShape({kElements}));
    for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(out[0].data<int64_t>()[i], i * i);
  }
  EXPECT_EQ(HasSharedMemory(), transfers.shared_memory_bytes > 0);
}

TEST(TransfersTest, Sockets) {
  TensorTransfers transfers;
  EXPECT_TRUE(transfers.sockets) << "they are used by default";
  transfers.shared_memory_bytes = 0;
  transfers.min_socket_bytes = 1000;
  ExpectSquares(transfers);
}

TEST(TransfersTest, ChunksOfMessages) {
  TensorTransfers transfers;
  transfers.sockets = false;
  transfers.max_message_bytes = 1000;
  transfers.chunk_bytes = 10'007;
  transfers.shared_memory_bytes = 0;
  ExpectSquares(transfers);
}

TEST(TransfersTest, OneMessage) {
  TensorTransfers transfers;
  transfers.sockets = false;
  transfers.shared_memory_bytes = 0;
  ExpectSquares(transfers);
}

TEST(TransfersTest, SharedMemory) {
  EXPECT_GT(TensorTransfers().shared_memory_bytes, 0) << "it is used by default";
  ExpectSquares({});
  EXPECT_FALSE(HasSharedMemory()) << "it goes with the servers";
}

// The shared memory is too small for one of the tensors; chunks have no limit.
TEST(TransfersTest, LittleSharedMemory) {
  TensorTransfers transfers;
  transfers.max_message_bytes = 1000;
  transfers.min_shared_memory_bytes = 1000;
  transfers.shared_memory_bytes = 900'000;
  ExpectSquares(transfers);
}

TEST(TransfersTest, ImpossibleSizesAreRefused) {
  for (const TensorTransfers& transfers :
       {TensorTransfers{.chunk_bytes = 0}, TensorTransfers{.chunk_bytes = -1},
        TensorTransfers{.chunk_bytes = int64_t{1} << 31}, TensorTransfers{.max_message_bytes = -1},
        TensorTransfers{.shared_memory_bytes = -1}, TensorTransfers{.shared_memory_bytes = INT64_MAX},
        TensorTransfers{.min_shared_memory_bytes = -1}, TensorTransfers{.min_socket_bytes = -1},
        TensorTransfers{.socket_port = -1}, TensorTransfers{.socket_port = 65536}}) {
    ServerOptions options;
    options.cluster = *ClusterSpec::Parse("worker=localhost:0");
    options.job = "worker";
    options.transfers = transfers;
    const auto server = Server::Make(options);
    EXPECT_TRUE(errors::IsInvalidArgument(server.status())) << server.status();
  }
}

}  // namespace
}  // namespace millrace
