// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Lists of tensors: the results of each op, and value semantics of shared lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/testing.h"
#include "kernels/shared/tensor_list.h"
#include "tensor/testing.h"
#include "tensor/variant.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Tensor Ints(const std::vector<int32_t>& values) { return Tensor::Vector<int32_t>(values); }
Tensor Int(int32_t value) { return Tensor::Scalar<int32_t>(value); }
Tensor Floats(const std::vector<float>& values) { return Tensor::Vector<float>(values); }
Tensor Matrix(const std::vector<float>& values, int64_t rows) {
  return Tensor::From<float>(values, {rows, static_cast<int64_t>(values.size()) / rows});
}

StatusOr<std::vector<Tensor>> RunOp(const char* op, const std::vector<Tensor>& inputs,
                                    const AttrMap& attrs = {{"element_dtype", DataType::kFloat}}) {
  KernelRunner runner(op);
  for (const auto& [name, value] : attrs) runner.Attr(name, value);
  for (const Tensor& input : inputs) runner.Input(input);
  return runner.Run();
}

// The first output. The test fails if there is none.
Tensor One(const char* op, const std::vector<Tensor>& inputs,
           const AttrMap& attrs = {{"element_dtype", DataType::kFloat}}) {
  const auto out = RunOp(op, inputs, attrs);
  EXPECT_TRUE(out.ok()) << op << ": " << out.status();
  return out.ok() ? (*out)[0] : Tensor();
}

std::string Error(const char* op, const std::vector<Tensor>& inputs,
                  const AttrMap& attrs = {{"element_dtype", DataType::kFloat}}) {
  const auto out = RunOp(op, inputs, attrs);
  EXPECT_FALSE(out.ok()) << op;
  return out.status().message();
}

const AttrMap kNew = {{"element_dtype", DataType::kFloat}, {"shape_type", DataType::kInt32}};

Tensor Empty(const Tensor& shape = Int(-1), int32_t most = -1) {
  return One("EmptyTensorList", {shape, Int(most)}, kNew);
}
Tensor Reserved(const Tensor& shape, int32_t size) {
  return One("TensorListReserve", {shape, Int(size)}, kNew);
}
Tensor FromTensor(const Tensor& tensor) {
  return One("TensorListFromTensor", {tensor, Int(-1)},
             {{"element_dtype", tensor.dtype()}, {"shape_type", DataType::kInt32}});
}
Tensor Pushed(const Tensor& list, const Tensor& item) { return One("TensorListPushBack", {list, item}); }
Tensor Item(const Tensor& list, int32_t i, const Tensor& shape = Int(-1)) {
  return One("TensorListGetItem", {list, Int(i), shape});
}
Tensor Stacked(const Tensor& list, const Tensor& shape = Int(-1)) {
  return One("TensorListStack", {list, shape});
}
int32_t Length(const Tensor& list) { return One("TensorListLength", {list}, {}).scalar<int32_t>(); }

TEST(TensorListTest, WhatIsPushedIsPoppedInReverse) {
  const Tensor one = Pushed(Empty(), Floats({1, 2}));
  const Tensor two = Pushed(one, Floats({3, 4, 5}));
  EXPECT_EQ(Length(one), 1);
  EXPECT_EQ(Length(two), 2);
  const auto popped = RunOp("TensorListPopBack", {two, Int(-1)});
  ASSERT_TRUE(popped.ok()) << popped.status();
  ExpectTensorEqual(Floats({3, 4, 5}), (*popped)[1]);
  EXPECT_EQ(Length((*popped)[0]), 1);
  ExpectTensorEqual(Floats({1, 2}), Item((*popped)[0], 0));
  EXPECT_EQ(Error("TensorListPopBack", {Empty(), Int(-1)}), "Trying to pop from an empty list.");
}

TEST(TensorListTest, AnEarlierListKeepsItsElements) {
  const Tensor list = FromTensor(Matrix({1, 2, 3, 4, 5, 6}, 3));
  const Tensor changed = One("TensorListSetItem", {list, Int(1), Floats({7, 8})});
  ExpectTensorEqual(Matrix({1, 2, 3, 4, 5, 6}, 3), Stacked(list));
  ExpectTensorEqual(Matrix({1, 2, 7, 8, 5, 6}, 3), Stacked(changed));
  ExpectTensorEqual(Floats({7, 8}), Item(changed, 1));
}

TEST(TensorListTest, ElementsWithoutValueReadAsZeros) {
  const Tensor list = Reserved(Ints({2}), 3);
  ExpectTensorEqual(Floats({0, 0}), Item(list, 2));
  const Tensor set = One("TensorListSetItem", {list, Int(1), Floats({7, 8})});
  ExpectTensorEqual(Matrix({0, 0, 7, 8, 0, 0}, 3), Stacked(set));
  const Tensor unknown = Reserved(Int(-1), 2);
  EXPECT_THAT(Error("TensorListGetItem", {unknown, Int(0), Int(-1)}),
              HasSubstr("Trying to read an uninitialized element but element_shape is not fully defined"));
  EXPECT_THAT(Error("TensorListStack", {unknown, Int(-1)}), HasSubstr("only contains uninitialized tensors"));
  ExpectTensorEqual(Matrix({0, 0}, 2), Stacked(unknown, Ints({1})));
  // The shapes of the other elements determine the shape.
  ExpectTensorEqual(Floats({0, 0, 0}),
                    Item(One("TensorListSetItem", {unknown, Int(1), Floats({1, 2, 3})}), 0));
}

TEST(TensorListTest, ElementsAreChecked) {
  const Tensor list = Reserved(Ints({2}), 3);
  EXPECT_EQ(Error("TensorListGetItem", {list, Int(3), Int(-1)}),
            "Trying to access element 3 in a list with 3 elements.");
  EXPECT_EQ(Error("TensorListSetItem", {list, Int(-1), Floats({1, 2})}),
            "Trying to modify element -1 in a list with 3 elements.");
  EXPECT_THAT(Error("TensorListSetItem", {list, Int(0), Floats({1, 2, 3})}),
              HasSubstr("Item element shape: [3] list shape: [2]"));
  EXPECT_THAT(Error("TensorListPushBack", {list, Floats({1})}), HasSubstr("incompatible shape to a list"));
  EXPECT_THAT(Error("TensorListPushBack", {list, Ints({1, 2})}, {{"element_dtype", DataType::kInt32}}),
              HasSubstr("Invalid data types; list elements float but tried to append int32"));
  EXPECT_THAT(Error("TensorListGetItem", {list, Int(0), Int(-1)}, {{"element_dtype", DataType::kInt32}}),
              HasSubstr("Invalid data types; op elements int32 but list elements float"));
  EXPECT_THAT(Error("TensorListPushBack", {Pushed(Empty(Int(-1), 1), Floats({1})), Floats({1})}),
              HasSubstr("Tried to push item into a full list"));
  EXPECT_THAT(Error("TensorListReserve", {Ints({2}), Int(-1)}, kNew), HasSubstr("non negative number"));
  EXPECT_THAT(Error("TensorListReserve", {Int(3), Int(1)}, kNew), HasSubstr("fully unknown shape"));
}

TEST(TensorListTest, OtherVariantsAreNoLists) {
  const Tensor none = Tensor::Scalar(Variant());
  const Tensor other = Tensor::Scalar(Variant(VariantData("tensorflow::Other", "", {})));
  EXPECT_EQ(Error("TensorListLength", {none}, {}), "Input handle is not a list. Saw: ''");
  EXPECT_EQ(Error("TensorListLength", {other}, {}), "Input handle is not a list. Saw: 'tensorflow::Other'");
  EXPECT_EQ(Error("TensorListLength", {Tensor(DataType::kVariant, TensorShape({2}))}, {}),
            "Input list must be a scalar saw: [2]");
}

TEST(TensorListTest, ElementShapesAreReturned) {
  const auto shape = [](const Tensor& list, DataType type) {
    return One("TensorListElementShape", {list}, {{"shape_type", type}});
  };
  ExpectTensorEqual(Ints({2, -1}), shape(Reserved(Ints({2, -1}), 3), DataType::kInt32));
  ExpectTensorEqual(Tensor::Scalar<int64_t>(-1), shape(Empty(), DataType::kInt64));
}

TEST(TensorListTest, AnySizeCanBeReservedAndShrunkAndGrown) {
  Tensor list = Reserved(Ints({1}), INT32_MAX);
  EXPECT_EQ(Length(list), INT32_MAX);
  list = One("TensorListSetItem", {list, Int(INT32_MAX - 1), Floats({5})});
  list = One("TensorListSetItem", {list, Int(20), Floats({6})});
  ExpectTensorEqual(Floats({5}), Item(list, INT32_MAX - 1));
  ExpectTensorEqual(Floats({0}), Item(list, INT32_MAX - 2));
  list = One("TensorListResize", {list, Int(21)}, {});
  EXPECT_EQ(Length(list), 21);
  ExpectTensorEqual(Floats({6}), Item(list, 20));
  list = One("TensorListResize", {list, Int(20)}, {});
  list = One("TensorListResize", {list, Int(300)}, {});
  ExpectTensorEqual(Floats({0}), Item(list, 20));
  EXPECT_THAT(Error("TensorListResize", {list, Int(-1)}, {}), HasSubstr("non-negative. Got: -1"));
  EXPECT_FALSE(RunOp("TensorListStack", {Reserved(Ints({1 << 20, 1 << 20}), INT32_MAX), Int(-1)}).ok());
}

TEST(TensorListTest, TheTreeIsAVector) {
  TensorList list(DataType::kInt32, PartialShape());
  std::vector<int32_t> expected;
  std::vector<TensorList> copies;
  for (int32_t i = 0; i < 5000; ++i) {
    list.Resize(i + 1);
    ASSERT_EQ(list.Set(i, Int(i)), Status());
    expected.push_back(i);
    if (i % 700 == 0) copies.push_back(list);
  }
  for (const int64_t size : {4097, 4096, 4095, 300, 256, 17, 16, 15, 1, 0}) {
    list.Resize(size);
    expected.resize(static_cast<size_t>(size));
    std::vector<int32_t> found;
    ASSERT_EQ(list.ForEach([&](int64_t i, const Tensor& t) {
      EXPECT_EQ(i, t.scalar<int32_t>());
      found.push_back(t.scalar<int32_t>());
      return Status();
    }),
              Status());
    EXPECT_EQ(found, expected);
  }
  for (size_t k = 0; k < copies.size(); ++k) {
    ASSERT_EQ(copies[k].size(), static_cast<int64_t>(700 * k + 1));
    for (int64_t i = 0; i < copies[k].size(); i += 37) ASSERT_EQ(copies[k].Find(i)->scalar<int32_t>(), i);
  }
}

TEST(TensorListTest, RowsAreGatheredAndScattered) {
  const Tensor list = FromTensor(Matrix({1, 2, 3, 4, 5, 6}, 3));
  ExpectTensorEqual(Matrix({5, 6, 1, 2, 5, 6}, 3), One("TensorListGather", {list, Ints({2, 0, 2}), Int(-1)}));
  EXPECT_EQ(Error("TensorListGather", {list, Ints({3}), Int(-1)}),
            "Trying to gather element 3 in a list with 3 elements.");
  const Tensor rows = Matrix({1, 2, 3, 4}, 2);
  const Tensor scattered = One("TensorListScatter", {rows, Ints({3, 1}), Int(-1)}, kNew);
  ExpectTensorEqual(Matrix({0, 0, 3, 4, 0, 0, 1, 2}, 4), Stacked(scattered));
  const Tensor sized = One("TensorListScatterV2", {rows, Ints({2, 1}), Int(-1), Int(5)}, kNew);
  EXPECT_EQ(Length(sized), 5);
  const Tensor into = One("TensorListScatterIntoExistingList", {list, rows, Ints({0, 4})});
  ExpectTensorEqual(Matrix({1, 2, 3, 4, 5, 6, 0, 0, 3, 4}, 5), Stacked(into));
  EXPECT_EQ(Length(list), 3);
  EXPECT_EQ(Error("TensorListScatterV2", {rows, Ints({2, 1}), Int(-1), Int(2)}, kNew),
            "TensorListScatter: Trying to scatter at index 2 in list with size 2");
  EXPECT_THAT(Error("TensorListScatter", {rows, Ints({-1, 1}), Int(-1)}, kNew), HasSubstr("non-negative"));
  EXPECT_THAT(Error("TensorListScatter", {rows, Ints({1}), Int(-1)}, kNew), HasSubstr("1 vs. 2"));
}

TEST(TensorListTest, StackingChecksNumberAndShapes) {
  const Tensor list = FromTensor(Matrix({1, 2, 3, 4}, 2));
  AttrMap three = {{"element_dtype", DataType::kFloat}, {"num_elements", 3}};
  EXPECT_EQ(Error("TensorListStack", {list, Int(-1)}, three),
            "Operation expected a list with 3 elements but got a list with 2 elements.");
  const Tensor uneven = Pushed(Pushed(Empty(), Floats({1})), Floats({1, 2}));
  EXPECT_FALSE(RunOp("TensorListStack", {uneven, Int(-1)}).ok());
  EXPECT_FALSE(RunOp("TensorListStack", {uneven, Ints({1})}).ok());
  EXPECT_THAT(Error("TensorListStack", {Empty(), Int(-1)}), HasSubstr("elements of an empty list"));
  ExpectTensorEqual(Tensor(DataType::kFloat, TensorShape({0, 3})), Stacked(Empty(), Ints({3})));
}

TEST(TensorListTest, PartsAreJoinedAndSplit) {
  const Tensor lengths = Tensor::Vector<int64_t>({1, 0, 2});
  const Tensor whole = Matrix({1, 2, 3, 4, 5, 6}, 3);
  const Tensor list = One("TensorListSplit", {whole, Ints({-1, 2}), lengths}, kNew);
  ExpectTensorEqual(Matrix({3, 4, 5, 6}, 2), Item(list, 2));
  const auto joined = RunOp("TensorListConcat", {list});
  ASSERT_TRUE(joined.ok()) << joined.status();
  ExpectTensorEqual(whole, (*joined)[0]);
  ExpectTensorEqual(lengths, (*joined)[1]);
  const Tensor some = One("TensorListSetItem", {Reserved(Int(-1), 2), Int(1), Matrix({7, 8}, 1)});
  const auto filled = RunOp("TensorListConcatV2", {some, Ints({-1, 2}), Tensor::Vector<int64_t>({2})}, kNew);
  ASSERT_TRUE(filled.ok()) << filled.status();
  ExpectTensorEqual(Matrix({0, 0, 0, 0, 7, 8}, 3), (*filled)[0]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({2, 1}), (*filled)[1]);
  EXPECT_EQ(Error("TensorListConcat", {some}),
            "List contains uninitialized element at index 0 but leading_dims has only 0 elements.");
  EXPECT_THAT(Error("TensorListConcat", {FromTensor(Floats({1, 2}))}),
              HasSubstr("saw a scalar shape at index 0"));
  EXPECT_THAT(Error("TensorListConcat", {Empty()}), HasSubstr("must be fully defined"));
  EXPECT_THAT(Error("TensorListSplit", {whole, Int(-1), Tensor::Vector<int64_t>({1})}, kNew),
              HasSubstr("Unused values in tensor. Length of tensor: 3 Values used: 1"));
  EXPECT_THAT(Error("TensorListSplit", {whole, Int(-1), Tensor::Vector<int64_t>({4})}, kNew),
              HasSubstr("from tensor with length 3"));
  EXPECT_THAT(Error("TensorListSplit", {whole, Int(-1), Tensor::Vector<int64_t>({-1, 4})}, kNew),
              HasSubstr("Invalid value in lengths: -1"));
  EXPECT_THAT(Error("TensorListSplit", {whole, Ints({-1, 3}), lengths}, kNew), HasSubstr("not compatible"));
}

TEST(TensorListTest, ListsAreJoinedAndPushedInBatches) {
  const auto batch = [](const Tensor& a, const Tensor& b) {
    return Tensor::Vector<Variant>({a.scalar<Variant>(), b.scalar<Variant>()});
  };
  const Tensor two = FromTensor(Floats({1, 2})), one = FromTensor(Floats({3}));
  const Tensor joined = One("TensorListConcatLists", {batch(two, one), batch(one, one)});
  const Tensor first = Tensor::Scalar(joined.data<Variant>()[0]);
  ExpectTensorEqual(Floats({1, 2, 3}), Stacked(first));
  const Tensor pushed = One("TensorListPushBackBatch", {batch(two, one), Floats({8, 9})});
  ExpectTensorEqual(Floats({1, 2, 8}), Stacked(Tensor::Scalar(pushed.data<Variant>()[0])));
  ExpectTensorEqual(Floats({3, 9}), Stacked(Tensor::Scalar(pushed.data<Variant>()[1])));
  EXPECT_THAT(Error("TensorListPushBackBatch", {batch(two, one), Floats({8})}), HasSubstr("2 vs. 1"));
  EXPECT_THAT(Error("TensorListConcatLists", {two, Reserved(Ints({1}), 1)}), HasSubstr("not identical"));
}

TEST(TensorListTest, ListsAreAddedAndHaveZeros) {
  const AttrMap variants = {{"T", DataType::kVariant}};
  const Tensor a = FromTensor(Matrix({1, 2, 3, 4}, 2));
  const Tensor b = One("TensorListSetItem", {Reserved(Ints({2}), 2), Int(1), Floats({10, 20})});
  const Tensor sum = One("AddN", {a, b, a}, {{"T", DataType::kVariant}, {"N", 3}});
  ExpectTensorEqual(Matrix({2, 4, 16, 28}, 2), Stacked(sum));
  ExpectTensorEqual(Matrix({0, 0, 0, 0}, 2), Stacked(One("ZerosLike", {a}, variants)));
  ExpectTensorEqual(Matrix({1, 2, 3, 4}, 2), Stacked(a));
  EXPECT_THAT(Error("AddN", {a, Reserved(Ints({2}), 3)}, {{"T", DataType::kVariant}, {"N", 2}}),
              HasSubstr("different lengths. One is 2 and the other is 3"));
  EXPECT_THAT(Error("AddN", {b, Reserved(Ints({3}), 2)}, {{"T", DataType::kVariant}, {"N", 2}}),
              HasSubstr("incompatible element shapes"));
}

TEST(TensorListTest, ListsMayLieInListsButNotForever) {
  const AttrMap variants = {{"element_dtype", DataType::kVariant}, {"shape_type", DataType::kInt32}};
  const Tensor outer = One("EmptyTensorList", {Int(-1), Int(-1)}, variants);
  Tensor nested = Pushed(Empty(), Floats({1}));
  Status status;
  int depth = 1;
  for (; depth < 1000 && status.ok(); ++depth) {
    const auto next = RunOp("TensorListPushBack", {outer, nested}, {{"element_dtype", DataType::kVariant}});
    status = next.status();
    if (next.ok()) nested = (*next)[0];
  }
  EXPECT_EQ(depth, TensorList::kMaxDepth + 1);
  EXPECT_THAT(status.message(), HasSubstr("must not be nested"));
}

TEST(TensorListTest, ListsThatLieInOneAnotherManyTimesAreNotUnfolded) {
  const AttrMap of_lists = {{"element_dtype", DataType::kVariant}, {"shape_type", DataType::kInt32}};
  const AttrMap variants = {{"T", DataType::kVariant}}, two = {{"T", DataType::kVariant}, {"N", 2}};
  const AttrMap pushed = {{"element_dtype", DataType::kVariant}};
  const Tensor outer = One("EmptyTensorList", {Int(-1), Int(-1)}, of_lists);
  Tensor nested = Pushed(Empty(), Floats({1}));
  for (int depth = 1; depth < TensorList::kMaxDepth; ++depth) {
    if (depth == 8) {  // 2^7 times the innermost
      EXPECT_TRUE(RunOp("ZerosLike", {nested}, variants).ok());
      EXPECT_TRUE(RunOp("AddN", {nested, nested}, two).ok());
      EXPECT_EQ(nested.scalar<Variant>().Encode().tensors.size(), 2u);
    }
    const Tensor once = One("TensorListPushBack", {outer, nested}, pushed);
    nested = One("TensorListPushBack", {once, nested}, pushed);
  }
  EXPECT_THAT(Error("ZerosLike", {nested}, variants), HasSubstr("too many elements"));
  EXPECT_THAT(Error("AddN", {nested, nested}, two), HasSubstr("too many elements"));
  const VariantData data = nested.scalar<Variant>().Encode();
  EXPECT_EQ(data.type_name, "tensorflow::TensorList");
  EXPECT_TRUE(data.tensors.empty());
}

TEST(TensorListTest, ListsAreWrittenInTensorFlowsFormat) {
  const Tensor list = One("TensorListSetItem", {Reserved(Ints({2, -1}), 3), Int(1), Matrix({1, 2}, 2)});
  const VariantData data = list.scalar<Variant>().Encode();
  EXPECT_EQ(data.type_name, "tensorflow::TensorList");
  // Two elements without value, 0 and 2; float; no maximum size; [2,?].
  EXPECT_EQ(data.metadata, std::string("\x02\x00\x02\x01", 4) + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" +
                               "\x12\x02\x08\x02\x12\x0b\x08" + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  const auto back = Variant::Decode(data);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectTensorEqual(Tensor::From<float>({0, 0, 1, 2, 0, 0}, {3, 2, 1}), Stacked(Tensor::Scalar(*back)));
  for (size_t n = 0; n < data.metadata.size(); ++n) {
    VariantData cut = data;
    cut.metadata.resize(n);
    const auto broken = Variant::Decode(cut);
    // A shape may be truncated.
    if (n < 14) {
      EXPECT_EQ(broken.status().message(), "The metadata of a tensor list are broken") << n;
    }
  }
  VariantData more = data;
  more.metadata[1] = 7;
  EXPECT_FALSE(Variant::Decode(more).ok());
}

}  // namespace
}  // namespace millrace
