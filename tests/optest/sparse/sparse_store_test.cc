// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sparse tensors that are serialized or stored in a map, and restored.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

const Tensor& Indices() {
  static const Tensor t = Tensor::From<int64_t>({2, 1, 0, 3, 0, 1}, {3, 2});
  return t;
}
const Tensor& Texts() {
  static const Tensor t = Tensor::Vector<std::string>({"c", "b", "a"});
  return t;
}
Tensor Longs(const std::vector<int64_t>& values) { return Tensor::Vector<int64_t>(values); }

void ExpectSorted(const StatusOr<std::vector<Tensor>>& out) {
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::From<int64_t>({0, 1, 0, 3, 2, 1}, {3, 2}), (*out)[0]);
  ExpectTensorEqual(Tensor::Vector<std::string>({"a", "b", "c"}), (*out)[1]);
  ExpectTensorEqual(Longs({3, 4}), (*out)[2]);
}

TEST(SparseStoreTest, ManyGoRoundThroughBytes) {
  KernelRunner serialize("SerializeManySparse");
  const auto bytes = serialize.Input(Indices()).Input(Texts()).Input(Longs({3, 4})).RunOne();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->shape(), TensorShape({3, 3}));
  KernelRunner back("DeserializeManySparse");
  ExpectSorted(back.Attr("dtype", DataType::kString).Input(*bytes).Run());
  KernelRunner wrong("DeserializeManySparse");
  EXPECT_EQ(wrong.Attr("dtype", DataType::kFloat).Input(*bytes).Run().status().message(),
            "Requested SparseTensor of type float but SparseTensor[0].values.dtype() == string");
}

TEST(SparseStoreTest, OneGoesRoundThroughBytesAndVariants) {
  for (const DataType form : {DataType::kString, DataType::kVariant}) {
    KernelRunner serialize("SerializeSparse");
    const Tensor sorted = Tensor::From<int64_t>({0, 1, 0, 3, 2, 1}, {3, 2});
    const auto parts = serialize.Attr("out_type", form)
                           .Input(sorted)
                           .Input(Tensor::Vector<std::string>({"a", "b", "c"}))
                           .Input(Longs({3, 4}))
                           .RunOne();
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(parts->shape(), TensorShape({3}));
    KernelRunner back("DeserializeSparse");
    ExpectSorted(back.Attr("dtype", DataType::kString).Attr("Tserialized", form).Input(*parts).Run());
  }
}

TEST(SparseStoreTest, VariantsOfOtherThingsAreRefused) {
  KernelRunner back("DeserializeSparse");
  back.Attr("dtype", DataType::kFloat).Attr("Tserialized", DataType::kVariant);
  const auto out = back.Input(Tensor(DataType::kVariant, TensorShape({3}))).Run();
  EXPECT_EQ(out.status().message(), "Could not parse serialized_sparse[0, 0]");
}

TEST(SparseStoreTest, BytesOfOtherThingsAreRefused) {
  KernelRunner runner("SerializeTensor");
  const auto floats = runner.Input(Tensor::Vector<float>({1})).RunOne();
  ASSERT_TRUE(floats.ok()) << floats.status();
  const std::string text = floats->scalar<std::string>();
  KernelRunner back("DeserializeManySparse");
  back.Attr("dtype", DataType::kFloat).Input(Tensor::From<std::string>({text, text, text}, {1, 3}));
  EXPECT_EQ(back.Run().status().code(), ErrorCode::kInvalidArgument);
}

TEST(SparseStoreTest, AMapGivesEachTensorOnce) {
  ResourceManager resources{std::string(KernelRunner::kDeviceName)};
  KernelRunner add("AddManySparseToTensorsMap");
  add.Attr("shared_name", "m").Resources(&resources);
  const auto handles = add.Input(Indices()).Input(Texts()).Input(Longs({3, 4})).RunOne();
  ASSERT_TRUE(handles.ok()) << handles.status();
  ASSERT_EQ(handles->shape(), TensorShape({3}));
  const auto take = [&](const Tensor& which) {
    KernelRunner runner("TakeManySparseFromTensorsMap");
    runner.Attr("dtype", DataType::kString).Attr("shared_name", "m").Resources(&resources);
    return runner.Input(which).Run();
  };
  ExpectSorted(take(*handles));
  EXPECT_EQ(take(*handles).status().message(),
            StrCat("Unable to find SparseTensor: ", handles->data<int64_t>()[0], " in map: m"));
  KernelRunner one("AddSparseToTensorsMap");
  one.Attr("shared_name", "m").Resources(&resources);
  const auto handle = one.Input(Indices()).Input(Texts()).Input(Longs({3, 4})).RunOne();
  ASSERT_TRUE(handle.ok()) << handle.status();
  const auto out = take(Longs({handle->scalar<int64_t>()}));
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::From<int64_t>({0, 2, 1, 0, 0, 3, 0, 0, 1}, {3, 3}), (*out)[0]);
  ExpectTensorEqual(Longs({1, 3, 4}), (*out)[2]);
}

}  // namespace
}  // namespace millrace
