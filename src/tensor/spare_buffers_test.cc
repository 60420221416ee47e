// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/spare_buffers.h"

#include <gtest/gtest.h>

#include <memory>

namespace millrace {
namespace {

constexpr int64_t kElements = 1 << 16;
constexpr size_t kBytes = sizeof(float) * kElements;
constexpr int64_t kPlenty = 1 << 30;

Tensor Floats() { return Tensor(DataType::kFloat, TensorShape({kElements})); }

TEST(SpareBuffersTest, WhatIsGivenIsTakenOnce) {
  SpareBuffers spares;
  Tensor tensor = Floats();
  const Buffer* const buffer = tensor.buffer();
  spares.Give(std::move(tensor), kPlenty);
  EXPECT_EQ(spares.bytes(), static_cast<int64_t>(kBytes));
  EXPECT_EQ(SpareBuffers::Take(kBytes + 64), nullptr);
  const RefPtr<Buffer> taken = SpareBuffers::Take(kBytes);
  EXPECT_EQ(taken.get(), buffer);
  EXPECT_TRUE(taken->RefCountIsOne());
  EXPECT_EQ(SpareBuffers::Take(kBytes), nullptr);
  EXPECT_EQ(spares.bytes(), 0);
}

TEST(SpareBuffersTest, BuffersThatCannotBeOverwrittenAreNotKept) {
  SpareBuffers spares;
  const Tensor used = Floats();
  spares.Give(used, kPlenty);
  const Tensor two(DataType::kFloat, TensorShape({2, kElements}));
  spares.Give(two.Slice(0, 1), kPlenty);
  spares.Give(Tensor(DataType::kString, TensorShape({kElements})), kPlenty);
  spares.Give(Tensor(DataType::kFloat, TensorShape({8})), kPlenty);
  spares.Give(Tensor(), kPlenty);
  EXPECT_EQ(spares.bytes(), 0);
}

TEST(SpareBuffersTest, NoMoreIsKeptThanTheLimit) {
  SpareBuffers spares;
  for (int i = 0; i < 3; ++i) spares.Give(Floats(), 2 * static_cast<int64_t>(kBytes));
  EXPECT_EQ(spares.bytes(), 2 * static_cast<int64_t>(kBytes));
}

TEST(SpareBuffersTest, TheyGoWithTheirOwner) {
  SpareBuffers others;
  auto spares = std::make_unique<SpareBuffers>();
  spares->Give(Floats(), kPlenty);
  others.Give(Floats(), kPlenty);
  spares = nullptr;
  EXPECT_NE(SpareBuffers::Take(kBytes), nullptr);
  EXPECT_EQ(SpareBuffers::Take(kBytes), nullptr);
}

}  // namespace
}  // namespace millrace
