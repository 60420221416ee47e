// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/iterator_state.h"

#include <gtest/gtest.h>

#include "data/dataset.h"

namespace millrace::data {
namespace {

// An iterator with one number as its state.
class Number final : public Iterator {
 public:
  explicit Number(int64_t value) : value_(value) {}
  int64_t value() const { return value_; }
  Status GetNext(Context&, Element*, bool* end) override {
    *end = true;
    return Status();
  }
  bool MayWait(int64_t) const override { return false; }
  Status Save(Context&, StateWriter& state) override {
    state.Write("value", value_);
    return Status();
  }
  Status Restore(Context&, const StateReader& state) override {
    MR_ASSIGN_OR_RETURN(value_, state.Int("value"));
    return Status();
  }

 private:
  int64_t value_;
};

TEST(IteratorStateTest, WhatIsWrittenIsReadAfterATripThroughAVariant) {
  Context ctx;
  IteratorState state;
  StateWriter writer(&state);
  Number inner(7);
  writer.Write("count", 3);
  writer.Write("name", "abc");
  writer.WriteElement("element", {Tensor::Scalar(1.5f), Tensor::Vector<int32_t>({1, 2})});
  writer.WriteStatus("error", errors::DataLoss("broken"));
  ASSERT_TRUE(writer.Save(ctx, "input", &inner).ok());
  ASSERT_TRUE(writer.Save(ctx, "ended", nullptr).ok());

  const StatusOr<IteratorState> back = IteratorState::DecodeVariant(state.EncodeVariant());
  ASSERT_TRUE(back.ok()) << back.status();
  const StateReader reader(*back);
  EXPECT_EQ(*reader.Int("count"), 3);
  EXPECT_EQ(*reader.Text("name"), "abc");
  const auto element = reader.ReadElement("element");
  ASSERT_TRUE(element.ok());
  ASSERT_EQ(element->size(), 2u);
  EXPECT_EQ((*element)[1].data<int32_t>()[1], 2);
  Status error;
  ASSERT_TRUE(reader.ReadStatus("error", &error).ok());
  EXPECT_EQ(error, errors::DataLoss("broken"));
  EXPECT_TRUE(reader.HasIterator("input"));
  EXPECT_FALSE(reader.HasIterator("ended"));
  Number restored(0);
  ASSERT_TRUE(reader.Restore(ctx, "input", restored).ok());
  EXPECT_EQ(restored.value(), 7);
}

TEST(IteratorStateTest, WhatIsMissingOrOfAnotherTypeIsAnError) {
  IteratorState state;
  StateWriter writer(&state);
  writer.Write("name", "abc");
  writer.Write("negative", -1);
  const StateReader reader(state);
  EXPECT_TRUE(errors::IsDataLoss(reader.Int("absent").status()));
  EXPECT_TRUE(errors::IsDataLoss(reader.Int("name").status()));
  EXPECT_TRUE(errors::IsDataLoss(reader.Count("negative").status()));
  EXPECT_TRUE(errors::IsDataLoss(reader.Text("negative").status()));
  Context ctx;
  Number number(5);
  EXPECT_TRUE(errors::IsDataLoss(reader.Restore(ctx, "input", number)));
}

TEST(IteratorStateTest, KeysThatDoNotFitTheValuesAreRefused) {
  EXPECT_TRUE(errors::IsDataLoss(
      IteratorState::DecodeVariant(VariantData("", "a\nb\n", {Tensor::Scalar(1)})).status()));
  EXPECT_TRUE(errors::IsDataLoss(
      IteratorState::DecodeVariant(VariantData("", "a\n", {Tensor::Scalar(1), Tensor::Scalar(2)})).status()));
}

}  // namespace
}  // namespace millrace::data
