// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "base/thread_pool.h"
#include "tensor/testing.h"

namespace millrace::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
Tensor Filled(const TensorShape& shape, uint32_t seed) {
  Tensor tensor(kDataTypeOf<T>, shape);
  std::mt19937 rng(seed);
  for (T& value : tensor.flat<T>()) {
    if constexpr (std::is_same_v<T, std::string>) {
      value.assign(rng() % 50, static_cast<char>(rng()));
    } else if constexpr (std::is_same_v<T, Variant>) {
      value = Variant(VariantData("test::Kind", std::string(rng() % 9, 'm'), {AsScalar<float>(1)}));
    } else if constexpr (std::is_same_v<T, bool>) {
      value = rng() % 2 == 0;
    } else if constexpr (std::is_trivially_copyable_v<T>) {
      for (size_t i = 0; i < sizeof(T); ++i)
        reinterpret_cast<unsigned char*>(&value)[i] = static_cast<unsigned char>(rng());
    }
  }
  return tensor;
}

Tensor FilledOf(DataType dtype, const TensorShape& shape, uint32_t seed) {
  return VisitDataType(dtype, Tensor(), [&]<typename T>() { return Filled<T>(shape, seed); });
}

class BundleTest : public ::testing::Test {
 protected:
  using Tensors = std::map<std::string, Tensor>;
  static Status Save(Env& env, const std::string& prefix, const Tensors& tensors) {
    MR_ASSIGN_OR_RETURN(const auto writer, BundleWriter::Open(env, prefix));
    for (const auto& [name, tensor] : tensors) MR_RETURN_IF_ERROR(writer->Add(name, tensor));
    return writer->Finish();
  }
  StatusOr<Tensor> Read(const std::string& prefix, const std::string& name) {
    MR_ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(env_, prefix));
    return reader->Read(name);
  }
  void ExpectHas(const std::string& prefix, const Tensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      const auto read = Read(prefix, name);
      ASSERT_TRUE(read.ok()) << read.status();
      ExpectTensorEqual(tensor, *read);
    }
  }
  std::vector<std::string> Files(const std::string& folder) {
    const auto names = env_.GetChildren(folder);
    return names.ok() ? *names : std::vector<std::string>();
  }

  MemEnv env_;
};

TEST_F(BundleTest, EveryTypeComesBack) {
  Tensors tensors;
  for (const DataType dtype : kAllDataTypes) {
    if (dtype == DataType::kResource) continue;
    int i = 0;
    for (const TensorShape& shape :
         {TensorShape(), TensorShape({0, 3}), TensorShape({7}), TensorShape({3, 1, 5})}) {
      ++i;
      tensors[StrCat(DataTypeName(dtype), i)] = FilledOf(dtype, shape, static_cast<uint32_t>(i));
    }
  }
  tensors["big"] = Filled<float>(TensorShape({1000, 701}), 1);  // many pieces, the last one shorter
  tensors["text"] = Filled<std::string>(TensorShape({50000}), 2);
  tensors["long"] = AsTensor<std::string>({std::string(700000, 'x'), "", std::string(300000, 'y')});
  ASSERT_EQ(Save(env_, "/a/b/p", tensors), Status::Ok());
  for (const auto& [name, tensor] : tensors) {
    const auto read = Read("/a/b/p", name);
    ASSERT_TRUE(read.ok()) << name << ": " << read.status();
    if (DataTypeSize(tensor.dtype()) == 0) {
      ExpectTensorEqual(tensor, *read);
    } else {  // as bytes, for NaNs
      EXPECT_EQ(tensor.shape(), read->shape()) << name;
      EXPECT_EQ(0, std::memcmp(tensor.raw_data(), read->raw_data(), tensor.num_bytes())) << name;
    }
  }
  const auto reader = BundleReader::Open(env_, "/a/b/p");
  ASSERT_EQ((*reader)->Start(), Status::Ok());
  Tensors::iterator expected = tensors.begin();
  while (*(*reader)->Next()) {
    EXPECT_EQ((*reader)->key(), expected->first);
    EXPECT_EQ((*reader)->entry()->shape, (expected++)->second.shape());
  }
  EXPECT_EQ(expected, tensors.end());
}

TEST_F(BundleTest, BadAdditionsAreRefused) {
  const auto writer = BundleWriter::Open(env_, "/p");
  const Tensor one = AsScalar<float>(1), row = AsTensor<float>({1, 2}, TensorShape({1, 2}));
  const TensorShape full({3, 2});
  const TensorSlice first = *TensorSlice::Parse("0,1:-"), second = *TensorSlice::Parse("1,1:-");
  EXPECT_EQ((*writer)->Add("a", one), Status::Ok());
  EXPECT_THAT((*writer)->Add("a", one).ToString(), HasSubstr("Adding duplicate key: a"));
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->Add("", one)));
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->Add(std::string(70000, 'n'), one)));
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->AddSlice("a", full, first, row)));
  EXPECT_EQ((*writer)->AddSlice("w", full, first, row), Status::Ok());
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->AddSlice("w", full, first, row)));
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->AddSlice("w", TensorShape({4, 2}), second, row)));
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->AddSlice("w", full, second, one)));
  EXPECT_TRUE(errors::IsInvalidArgument((*writer)->Add("w", one)));
  EXPECT_THAT((*writer)->Add("r", Tensor(DataType::kResource, TensorShape())).ToString(),
              HasSubstr("Saving data type resource not yet supported"));
}

TEST_F(BundleTest, SlicesAreReadInAnyOtherSlices) {
  const TensorShape full({5, 4, 3});
  for (const DataType dtype : {DataType::kInt16, DataType::kString}) {
    const Tensor all = FilledOf(dtype, full, 5);
    const auto cut = [&](const char* text) {
      const TensorSlice slice = *TensorSlice::Parse(text);
      Tensor part(dtype, *slice.ShapeIn(full));
      CopyCommon(Region(TensorSlice::Full(3), full), all, Region(slice, full), &part);
      return part;
    };
    const auto writer = BundleWriter::Open(env_, "/p");
    for (const char* text : {"0,2:-:-", "2,3:0,2:-", "2,3:2,2:0,1", "2,3:2,2:1,2"}) {
      ASSERT_EQ((*writer)->AddSlice("w", full, *TensorSlice::Parse(text), cut(text)), Status::Ok());
    }
    ASSERT_EQ((*writer)->AddSlice("whole", full, *TensorSlice::Parse("0,5:-:0,3"), all), Status::Ok());
    ASSERT_EQ((*writer)->AddSlice("half", full, *TensorSlice::Parse("0,2:-:-"), cut("0,2:-:-")),
              Status::Ok());
    ASSERT_EQ((*writer)->Finish(), Status::Ok());
    const auto reader = BundleReader::Open(env_, "/p");
    EXPECT_TRUE((*reader)->Find("whole")->slices.empty());
    EXPECT_EQ((*reader)->Find("w")->slices.size(), 4u);
    for (const char* name : {"w", "whole"}) {
      const auto read = (*reader)->Read(name);
      ASSERT_TRUE(read.ok()) << read.status();
      ExpectTensorEqual(all, *read);
      for (const char* text : {"-:-:-", "0,2:-:-", "1,3:1,2:0,3", "4,1:3,1:2,1", "2,3:2,2:1,2"}) {
        const auto part = (*reader)->ReadSlice(name, *TensorSlice::Parse(text));
        ASSERT_TRUE(part.ok()) << text << ": " << part.status();
        ExpectTensorEqual(cut(text), *part);
      }
    }
    EXPECT_TRUE((*reader)->ReadSlice("half", *TensorSlice::Parse("0,1:1,2:-")).ok());
    EXPECT_THAT((*reader)->Read("half").status().ToString(),
                HasSubstr("Does not have sufficient slices for partitioned tensor half to restore"));
    EXPECT_FALSE((*reader)->ReadSlice("w", *TensorSlice::Parse("0,6:-:-")).ok());
    EXPECT_FALSE((*reader)->ReadSlice("w", *TensorSlice::Parse("-")).ok());
  }
}

TEST_F(BundleTest, ShardsAreMerged) {
  const TensorShape full({2, 2});
  for (int i = 0; i < 2; ++i) {
    const auto writer = BundleWriter::Open(env_, StrCat("/d/p_temp/part-", i));
    ASSERT_EQ((*writer)->Add(StrCat("own", i), AsScalar<int32_t>(i)), Status::Ok());
    ASSERT_EQ((*writer)->AddSlice("w", full, *TensorSlice::Parse(StrCat(i, ",1:-")),
                                  AsTensor<int32_t>({10 * i, 10 * i + 1}, TensorShape({1, 2}))),
              Status::Ok());
    ASSERT_EQ((*writer)->Finish(), Status::Ok());
  }
  const std::vector<std::string> parts{"/d/p_temp/part-0", "/d/p_temp/part-1"};
  ASSERT_EQ(MergeBundles(env_, parts, "/d/p"), Status::Ok());
  EXPECT_THAT(Files("/d"),
              ElementsAre("p.data-00000-of-00002", "p.data-00001-of-00002", "p.index", "p_temp"));
  EXPECT_THAT(Files("/d/p_temp"), ElementsAre());
  ExpectHas("/d/p", {{"own0", AsScalar<int32_t>(0)},
                     {"own1", AsScalar<int32_t>(1)},
                     {"w", AsTensor<int32_t>({0, 1, 10, 11}, full)}});
  ASSERT_EQ(Save(env_, "/a", {{"x", AsScalar<float>(1)}}), Status::Ok());
  ASSERT_EQ(Save(env_, "/b", {{"x", AsScalar<float>(1)}}), Status::Ok());
  EXPECT_THAT(MergeBundles(env_, {"/a", "/b"}, "/c").ToString(),
              HasSubstr("Duplicate tensor keyed by x encountered, when merging prefix: /b"));
  ExpectHas("/a", {{"x", AsScalar<float>(1)}});
  EXPECT_FALSE(MergeBundles(env_, {"/none"}, "/c").ok());
}

TEST_F(BundleTest, SavingAgainReplacesTheWholeCheckpoint) {
  for (int i = 0; i < 4; ++i) {
    const Tensors tensors{{"x", AsScalar<int32_t>(i)}, {StrCat("only", i), AsScalar<int32_t>(i)}};
    ASSERT_EQ(Save(env_, "/d/p", tensors), Status::Ok());
    ExpectHas("/d/p", tensors);
    EXPECT_TRUE(errors::IsNotFound(Read("/d/p", StrCat("only", i - 1)).status()));
    // The files of the previous one are removed.
    if (i % 2 == 0) {
      EXPECT_THAT(Files("/d"), ElementsAre("p.data-00000-of-00001", "p.index"));
    } else {
      EXPECT_THAT(Files("/d"), ElementsAre("p.data-00000-of-00002", "p.data-00001-of-00002", "p.index"));
    }
  }
  ASSERT_EQ(WriteFileAtomically(env_, "/d/p.index", "garbage"), Status::Ok());
  ASSERT_EQ(Save(env_, "/d/p", {{"x", AsScalar<int32_t>(9)}}), Status::Ok());
  ExpectHas("/d/p", {{"x", AsScalar<int32_t>(9)}});
}

// Every operation of a save fails in turn; reading then finds the old checkpoint or the new one.
TEST_F(BundleTest, AFailureAnywhereLeavesACheckpoint) {
  const Tensors before{{"x", Filled<float>(TensorShape({3000}), 1)}, {"y", AsTensor<std::string>({"old"})}},
      after{{"x", Filled<float>(TensorShape({3000}), 2)}, {"y", AsTensor<std::string>({"new"})}};
  int failures = 0;
  for (int fail_at = 0;; ++fail_at) {
    ASSERT_LT(fail_at, 100);
    ASSERT_EQ(Save(env_, "/d/p", before), Status::Ok());
    int operations = 0;
    FaultyEnv faulty(env_, [&](std::string_view operation, const std::string& path) {
      return operations++ == fail_at ? errors::ResourceExhausted(path, "; no room to ", operation)
                                     : Status::Ok();
    });
    const Status status = Save(faulty, "/d/p", after);
    const bool is_new = TensorsEqual(after.at("y"), *Read("/d/p", "y"));
    ExpectHas("/d/p", is_new ? after : before);
    EXPECT_TRUE(is_new || !status.ok());
    failures += !status.ok();
    if (operations <= fail_at) break;
  }
  EXPECT_GT(failures, 10);
}

TEST_F(BundleTest, CancellationEndsReadsAndWrites) {
  const Tensor tensor = Filled<float>(TensorShape({100000}), 1);
  ASSERT_EQ(Save(env_, "/p", {{"x", tensor}}), Status::Ok());
  CancellationManager cancellation;
  const auto reader = BundleReader::Open(env_, "/p", &cancellation);
  const auto writer = BundleWriter::Open(env_, "/q", &cancellation);
  EXPECT_TRUE((*reader)->Read("x").ok());
  EXPECT_EQ((*writer)->Add("x", tensor), Status::Ok());
  cancellation.StartCancel();
  EXPECT_TRUE(errors::IsCancelled((*reader)->Read("x").status()));
  EXPECT_TRUE(errors::IsCancelled((*writer)->Add("y", tensor)));
  EXPECT_TRUE(errors::IsCancelled((*writer)->Finish()));
}

TEST_F(BundleTest, ThreadsShareLargeTensors) {
  ThreadPool pool("test", 3);
  const auto parallel = [&](int64_t total, int64_t cost_ns, ThreadPool::ShardFn fn) {
    pool.ParallelFor(total, cost_ns, fn);
  };
  const Tensor large = Filled<int32_t>(TensorShape({(9 << 18) + 7}), 1);
  ASSERT_TRUE(Save(env_, "/large", {{"a", Filled<float>(TensorShape({3}), 2)}, {"b", large}}).ok());
  const auto read = [&](CancellationManager* cancellation) -> StatusOr<Tensor> {
    MR_ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(env_, "/large", cancellation, parallel));
    return reader->Read("b");
  };
  const auto tensor = read(nullptr);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ExpectTensorEqual(large, *tensor);

  CancellationManager cancelled;
  cancelled.StartCancel();
  EXPECT_TRUE(errors::IsCancelled(read(&cancelled).status()));

  const std::string path = BundleDataPath("/large", 0, 1);
  const auto bytes = ReadFileToString(env_, path);
  ASSERT_TRUE(bytes.ok());
  for (const size_t at : {size_t{12}, bytes->size() / 2, bytes->size() - 1}) {
    std::string broken = *bytes;
    broken[at] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(env_, path, broken).ok());
    EXPECT_THAT(read(nullptr).status().message(), HasSubstr("Checksum does not match")) << at;
  }
}

TEST_F(BundleTest, AnythingUnfinishedLeavesNoFiles) {
  ASSERT_EQ(env_.CreateDir("/d"), Status::Ok());
  { EXPECT_TRUE((*BundleWriter::Open(env_, "/d/p"))->Add("x", AsScalar<float>(1)).ok()); }
  EXPECT_THAT(Files("/d"), ElementsAre());
}

}  // namespace
}  // namespace millrace::io
