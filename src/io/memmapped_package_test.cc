// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/memmapped_package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tensor/testing.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Name(const std::string& name) { return kMemmappedPrefix + name; }

// A tensor and a graph.
void WritePackage(Env& env, const std::string& path) {
  const auto writer = MemmappedPackageWriter::Open(env, path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_EQ((*writer)->AddTensor(Name("t"), AsTensor<float>({1, 2, 3})), Status());
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("n");
  ASSERT_EQ((*writer)->AddMessage(kMemmappedGraphDef, graph), Status());
  ASSERT_EQ((*writer)->AddTensor(Name("u"), AsTensor<int64_t>({4})), Status());
  EXPECT_FALSE(env.FileExists(path)) << "there before it is whole";
  ASSERT_EQ((*writer)->Finish(), Status());
}

TEST(MemmappedPackageTest, WhatIsWrittenIsFoundAligned) {
  MemEnv env;
  WritePackage(env, "/p");
  const auto package = MemmappedEnv::Open(env, "/p");
  ASSERT_TRUE(package.ok()) << package.status();
  EXPECT_THAT((*package)->Names(), ElementsAre(Name("."), Name("t"), Name("u")));
  const auto t = (*package)->NewReadOnlyMemoryRegion(Name("t"));
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ((*t)->length(), 12u);
  const auto u = (*package)->NewReadOnlyMemoryRegion(Name("u"));
  EXPECT_EQ(((*u)->data() - (*t)->data()) % 64, 0);
  EXPECT_EQ(*reinterpret_cast<const int64_t*>((*u)->data()), 4);
  const auto bytes = ReadFileToString(**package, kMemmappedGraphDef);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  tensorflow::GraphDef graph;
  ASSERT_TRUE(graph.ParseFromString(*bytes));
  EXPECT_EQ(graph.node(0).name(), "n");
  EXPECT_EQ((*package)->NewReadOnlyMemoryRegion(Name("v")).status(),
            errors::NotFound("Region memmapped_package://v is not found"));
  EXPECT_EQ(*ReadFileToString(**package, "/p"), *ReadFileToString(env, "/p"))
      << "other files are also accessible";
}

// Byte by byte, as TensorFlow 1.x writes it: no lengths, the directory's offset at the end.
TEST(MemmappedPackageTest, ReadsPackagesWithoutLengths) {
  MemEnv env;
  std::string file = "abcdEF";
  const auto element = [](char offset, const std::string& name) {
    const std::string body = std::string("\x08") + offset + "\x12" + static_cast<char>(name.size()) + name;
    return std::string("\x0a") + static_cast<char>(body.size()) + body;
  };
  file += element(1, Name("x")) + element(4, Name("y"));
  file += std::string("\x06\0\0\0\0\0\0\0", 8);
  ASSERT_EQ(WriteFileAtomically(env, "/p", file), Status());
  const auto package = MemmappedEnv::Open(env, "/p");
  ASSERT_TRUE(package.ok()) << package.status();
  EXPECT_EQ(*ReadFileToString(**package, Name("x")), "bcd");
  EXPECT_EQ(*ReadFileToString(**package, Name("y")), "EF");
}

TEST(MemmappedPackageTest, BadNamesTypesAndSecondsAreRefused) {
  MemEnv env;
  const auto writer = MemmappedPackageWriter::Open(env, "/p");
  const Tensor one = AsScalar<float>(1);
  for (const std::string bad :
       {"x", "memmapped_package://", "memmapped_package://a/b", "memmapped_package://a b"}) {
    EXPECT_TRUE(errors::IsInvalidArgument((*writer)->AddTensor(bad, one))) << bad;
  }
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->AddTensor(Name("s"), AsScalar<std::string>("x"))));
  EXPECT_EQ((*writer)->AddTensor(Name("a"), one), Status());
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->AddTensor(Name("a"), one)));
}

TEST(MemmappedPackageTest, WhatIsNoPackageIsDataLoss) {
  MemEnv env;
  WritePackage(env, "/p");
  const std::string good = *ReadFileToString(env, "/p");
  const auto open = [&](const std::string& bytes) {
    EXPECT_EQ(WriteFileAtomically(env, "/q", bytes), Status());
    return MemmappedEnv::Open(env, "/q").status();
  };
  EXPECT_THAT(open("short").message(), HasSubstr("Corrupted memmapped model file: /q Invalid package size"));
  EXPECT_THAT(open(good.substr(0, good.size() - 8) + std::string(8, '\xff')).message(),
              HasSubstr("Invalid directory offset"));
  EXPECT_TRUE(errors::IsDataLoss(open("0123456789" + std::string(8, '\0'))));
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (int j = 0; j < 3; ++j) bytes[random() % bytes.size()] = static_cast<char>(random());
    ASSERT_EQ(WriteFileAtomically(env, "/q", bytes), Status());
    const auto package = MemmappedEnv::Open(env, "/q");
    if (!package.ok()) continue;
    for (const std::string& name : (*package)->Names()) {
      const auto region = (*package)->NewReadOnlyMemoryRegion(name);
      if (region.ok()) {
        EXPECT_LE((*region)->length(), bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace millrace::io
