// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arrays and stacks of tensors in a session: values, all errors, and lifetimes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/scope.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Array = ops::TensorArrayV3;

class TensorArrayTest : public ::testing::Test {
 protected:
  Array Make(int size, DataType dtype = DataType::kFloat) { return Array(scope_, size, dtype); }
  Output Write(const Array& array, int index, const Input& value, const Output& flow) {
    return ops::TensorArrayWriteV3(scope_, array.handle, index, value, flow);
  }
  Output Read(const Array& array, int index, const Output& flow, DataType dtype = DataType::kFloat) {
    return ops::TensorArrayReadV3(scope_, array.handle, index, flow, dtype);
  }
  Output Gather(const Array& array, const Input& indices, const Output& flow,
                DataType dtype = DataType::kFloat) {
    return ops::TensorArrayGatherV3(scope_, array.handle, indices, flow, dtype);
  }
  Output Scatter(const Array& array, const Input& indices, const Input& value, const Output& flow) {
    return ops::TensorArrayScatterV3(scope_, array.handle, indices, value, flow);
  }
  StatusOr<std::vector<Tensor>> Run(const std::vector<Output>& fetches) {
    MR_RETURN_IF_ERROR(scope_.status());
    ClientSession session(scope_);
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session.Run(fetches, &out));
    return out;
  }
  void ExpectValue(const Output& fetch, const Tensor& want) {
    const auto out = Run({fetch});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectTensorEqual(want, (*out)[0]);
  }
  void ExpectError(const Output& fetch, const std::string& text) {
    const auto out = Run({fetch});
    ASSERT_FALSE(out.ok()) << text;
    EXPECT_THAT(out.status().ToString(), HasSubstr(text));
  }

  Scope scope_ = Scope::NewRootScope();
};

TEST_F(TensorArrayTest, WhatIsWrittenIsRead) {
  const Array array = Make(3);
  Output flow = Write(array, 2, {1.0f, 2.0f}, array.flow);
  flow = Write(array, 0, 5.0f, flow);
  const auto out =
      Run({Read(array, 2, flow), Read(array, 0, flow), ops::TensorArraySizeV3(scope_, array.handle, flow)});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), (*out)[0]);
  ExpectTensorEqual(Tensor::Scalar(5.0f), (*out)[1]);
  ExpectTensorEqual(Tensor::Scalar(3), (*out)[2]);
}

TEST_F(TensorArrayTest, ElementsOfAnyTypeAreKept) {
  for (const DataType dtype : kAllDataTypes) {
    if (ElementSize(dtype) == 0 || dtype == DataType::kResource || dtype == DataType::kVariant) continue;
    const Array array = Make(2, dtype);
    const Tensor value = dtype == DataType::kString
                             ? Tensor::Vector<std::string>({"a", std::string(100, 'b')})
                             : Tensor(dtype, TensorShape({2}));
    if (dtype != DataType::kString) std::memset(const_cast<void*>(value.raw_data()), 1, value.num_bytes());
    const Output x = ops::Placeholder(scope_, dtype);
    const Output flow = Write(array, 1, x, Write(array, 0, x, array.flow));
    const Output y = Gather(array, {1, 0}, flow, dtype);
    ClientSession session(scope_);
    std::vector<Tensor> out;
    ASSERT_EQ(session.Run({{x, value}}, {y}, &out), Status()) << dtype;
    ASSERT_EQ(out[0].shape(), TensorShape({2, 2}));
    ExpectTensorEqual(value, out[0].Slice(0, 1).WithShape(TensorShape({2})));
    ExpectTensorEqual(value, out[0].Slice(1, 2).WithShape(TensorShape({2})));
  }
}

TEST_F(TensorArrayTest, RowsAreScatteredAndGathered) {
  const Array array(scope_, 0, DataType::kFloat, Array::DynamicSize(true));
  const Output flow = Scatter(array, {2, 0}, {{1.0f, 2.0f}, {3.0f, 4.0f}}, array.flow);
  ExpectValue(Gather(array, {0, 2}, flow), Tensor::From<float>({3, 4, 1, 2}, TensorShape({2, 2})));
}

TEST_F(TensorArrayTest, PiecesAreSplitAndConcatenated) {
  const Array array = Make(3);
  const Tensor value = Tensor::From<float>({1, 2, 3, 4, 5, 6}, TensorShape({3, 2}));
  const Output flow =
      ops::TensorArraySplitV3(scope_, array.handle, value, Tensor::Vector<int64_t>({2, 0, 1}), array.flow);
  const ops::TensorArrayConcatV3 joined(scope_, array.handle, flow, DataType::kFloat);
  const auto out = Run({joined.value, joined.lengths});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(value, (*out)[0]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({2, 0, 1}), (*out)[1]);
}

TEST_F(TensorArrayTest, NothingIsGatheredWithAKnownElementShape) {
  const Array array(scope_, 0, DataType::kFloat, Array::ElementShape({2, 3}));
  const auto out = Run({Gather(array, Tensor::Vector<int32_t>({}), array.flow)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].shape(), TensorShape({0, 2, 3}));
}

TEST_F(TensorArrayTest, NothingIsGatheredWithoutOne) {
  const Array array = Make(0);
  ExpectError(Gather(array, Tensor::Vector<int32_t>({}), array.flow),
              "TensorArray has size zero, but element shape <unknown> is not fully defined.");
}

TEST_F(TensorArrayTest, ReadsTwiceAreRefusedAfterAClearingRead) {
  const Array array = Make(1);
  const Output flow = Write(array, 0, 1.0f, array.flow);
  const Output first = Read(array, 0, flow);
  ExpectError(
      ops::TensorArrayReadV3(scope_.WithControlDependencies({first}), array.handle, 0, flow,
                             DataType::kFloat),
      "Could not read index 0 twice because it was cleared after a previous read (perhaps try setting "
      "clear_after_read = false?).");
}

TEST_F(TensorArrayTest, ReadsTwiceAreFineWhenNothingIsCleared) {
  const Array array(scope_, 1, DataType::kFloat, Array::ClearAfterRead(false));
  const Output flow = Write(array, 0, 1.5f, array.flow);
  ExpectValue(ops::Add(scope_, Read(array, 0, flow), Read(array, 0, flow)), Tensor::Scalar(3.0f));
}

TEST_F(TensorArrayTest, BadIndicesAreRefused) {
  const Array array = Make(2);
  ExpectError(Write(array, 2, 1.0f, array.flow),
              "Tried to write to index 2 but array is not resizeable and size is: 2");
  ExpectError(Write(array, -1, 1.0f, array.flow),
              "Tried to write to index -1 but array is not resizeable and size is: 2");
  ExpectError(Read(array, 2, array.flow), "Tried to read from index 2 but array size is: 2");
  ExpectError(Read(array, 1, array.flow),
              "Could not read from TensorArray index 1 because it has not yet been written to.");
  ExpectError(Scatter(array, {0, 2}, {1.0f, 2.0f}, array.flow),
              "Max scatter index must be < array size (2 vs. 2)");
}

TEST_F(TensorArrayTest, BadWritesAreRefused) {
  const Array array(scope_, 3, DataType::kFloat, Array::IdenticalElementShapes(true));
  const Output flow = Write(array, 0, {1.0f, 2.0f}, array.flow);
  ExpectError(Write(array, 0, {1.0f, 2.0f}, flow),
              "Could not write to TensorArray index 0 because it has already been written to.");
  ExpectError(
      Write(array, 1, 1.0f, flow),
      "Could not write to TensorArray index 1 because the value shape is [] which is incompatible with the "
      "TensorArray's inferred element shape: [2] (consider setting infer_shape=False).");
}

TEST_F(TensorArrayTest, TypesMustAgree) {
  const Array array =
      Make(1);  // with an unknown element shape, so its type is unknown when the graph is built, too
  ExpectError(Write(array, 0, 1, array.flow),
              "TensorArray dtype is float but Op is trying to write dtype int32.");
  ExpectError(Read(array, 0, array.flow, DataType::kInt32),
              "TensorArray dtype is float but Op is trying to read dtype int32.");
  ExpectError(Gather(array, {0}, array.flow, DataType::kInt32),
              "TensorArray dtype is float but Op requested dtype int32.");
}

TEST_F(TensorArrayTest, ElementsMustHaveOneShapeToBeJoined) {
  const Array array = Make(2);
  const Output flow = Write(array, 1, {1.0f}, Write(array, 0, {1.0f, 2.0f}, array.flow));
  ExpectError(Gather(array, {0, 1}, flow),
              "TensorArray has inconsistent shapes.  Index 0 has shape: [2] but index 1 has shape: [1]");
  const Array scalars = Make(1);
  ExpectError(
      ops::TensorArrayConcatV3(scope_, scalars.handle, Write(scalars, 0, 1.0f, scalars.flow),
                               DataType::kFloat)
          .value,
      "Concat saw a scalar shape at index 0 but requires at least vectors.  Did you mean to call pack?");
}

TEST_F(TensorArrayTest, SplitsMustFit) {
  const Array array = Make(2);
  const auto split = [&](const std::vector<int64_t>& lengths) {
    return ops::TensorArraySplitV3(scope_, array.handle, {1.0f, 2.0f, 3.0f}, Tensor::Vector<int64_t>(lengths),
                                   array.flow)
        .flow_out;
  };
  ExpectError(split({1, 1}),
              "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is 2");
  ExpectError(split({1, 1, 1}),
              "TensorArray's size is not equal to the size of lengths (2 vs. 3), and the TensorArray is not "
              "marked as "
              "dynamically resizeable");
  ExpectError(split({4, -1}), "Expected lengths to be >= 0");
  ExpectError(split({INT64_MAX, INT64_MAX}), "Expected sum of lengths");
}

TEST_F(TensorArrayTest, AClosedArrayIsOfNoUse) {
  const Array array = Make(1);
  const ops::TensorArrayCloseV3 close(scope_, array.handle);
  ExpectError(
      ops::TensorArrayWriteV3(scope_.WithControlDependencies({close}), array.handle, 0, 1.0f, array.flow),
      "has already been closed.");
}

TEST_F(TensorArrayTest, NegativeSizesAreRefused) { ExpectError(Make(-1).flow, "Size should be >= 0."); }

TEST_F(TensorArrayTest, AHugeArrayCostsNothingUntilItIsWritten) {
  const Array array = Make(INT32_MAX);
  const Output flow = Write(array, INT32_MAX - 1, 1.0f, array.flow);
  ExpectValue(Read(array, INT32_MAX - 1, flow), Tensor::Scalar(1.0f));
}

TEST_F(TensorArrayTest, GradientArraysAddUpAndKeepTheShapes) {
  const Array array = Make(3);
  Output flow = Write(array, 0, {1.0f, 2.0f}, array.flow);
  flow = Write(array, 1, {3.0f}, flow);
  const ops::TensorArrayGradV3 g(scope_, array.handle, flow, "gradients");
  const ops::TensorArrayGradV3 same(scope_, array.handle, flow, "gradients");
  const ops::TensorArrayGradV3 other(scope_, array.handle, flow, "gradients_1");
  const auto write = [&](const Output& handle, const Input& value, const Output& after) {
    return ops::TensorArrayWriteV3(scope_, handle, 0, value, after).flow_out;
  };
  Output after = write(g.grad_handle, {10.0f, 20.0f}, g.flow_out);
  after = write(same.grad_handle, {1.0f, 1.0f}, after);
  after = write(other.grad_handle, {7.0f, 7.0f}, after);
  const auto read = [&](const Output& handle, int index) {
    return ops::TensorArrayReadV3(scope_, handle, index, after, DataType::kFloat).value;
  };
  const auto out = Run({read(g.grad_handle, 0), read(g.grad_handle, 1), read(other.grad_handle, 0)});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::Vector<float>({11, 21}), (*out)[0]);
  ExpectTensorEqual(Tensor::Vector<float>({0}), (*out)[1]);  // never written, but of known shape
  ExpectTensorEqual(Tensor::Vector<float>({7, 7}), (*out)[2]);
  ExpectError(read(g.grad_handle, 2), "Could not read from gradient TensorArray index 2.");
  ExpectError(
      write(g.grad_handle, {1.0f, 1.0f, 1.0f}, g.flow_out),
      "Could not aggregate to TensorArray index 0 because the existing shape is [2] but the new input shape "
      "is [3].");
}

TEST_F(TensorArrayTest, AddedGradientsLeaveTheAddendsAlone) {
  const Array array = Make(1);
  const Output flow = Write(array, 0, {1.0f, 2.0f}, array.flow);
  const ops::TensorArrayGradV3 g(scope_, array.handle, flow, "gradients");
  const Output a = ops::Placeholder(scope_, DataType::kFloat);
  Output after = ops::TensorArrayWriteV3(scope_, g.grad_handle, 0, a, g.flow_out);
  after = ops::TensorArrayWriteV3(scope_, g.grad_handle, 0, a, after);
  const Output sum = ops::TensorArrayReadV3(scope_, g.grad_handle, 0, after, DataType::kFloat);
  ClientSession session(scope_);
  const Tensor value = Tensor::Vector<float>({1, 2});
  std::vector<Tensor> out;
  ASSERT_EQ(session.Run({{a, value}}, {sum}, &out), Status());
  ExpectTensorEqual(Tensor::Vector<float>({2, 4}), out[0]);
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), value);
}

TEST_F(TensorArrayTest, ArraysDoNotOutliveTheirStep) {
  const Array array = Make(1);
  ClientSession session(scope_);
  const Output flow = Write(array, 0, 1.0f, array.flow);
  const Output read = Read(array, 0, flow);
  std::vector<Tensor> first, second;
  ASSERT_EQ(session.Run({array.handle}, &first), Status());
  const Status gone = session.Run({{array.handle, first[0]}, {array.flow, 0.0f}}, {read}, &second);
  EXPECT_TRUE(errors::IsNotFound(gone)) << gone;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(session.Run({read}, &second), Status()) << "each step has its own";
}

TEST_F(TensorArrayTest, StacksGiveBackInReverse) {
  const Output stack = ops::StackV2(scope_, 2, DataType::kString);
  const Output a = ops::StackPushV2(scope_, stack, "a");
  const Output b = ops::StackPushV2(scope_.WithControlDependencies({a}), stack, "b");
  const Output first = ops::StackPopV2(scope_.WithControlDependencies({b}), stack, DataType::kString);
  const Output second = ops::StackPopV2(scope_.WithControlDependencies({first}), stack, DataType::kString);
  const auto out = Run({first, second, b});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<std::string>(), "b");
  EXPECT_EQ((*out)[1].scalar<std::string>(), "a");
  EXPECT_EQ((*out)[2].scalar<std::string>(), "b");
  ExpectError(ops::StackPopV2(scope_.WithControlDependencies({second}), stack, DataType::kString),
              "is empty when calling Pop().");
  const Output third = ops::StackPushV2(scope_.WithControlDependencies({b}), stack, "c");
  ExpectError(third, "overflowed its max_size (2)");
  ExpectError(ops::StackPushV2(scope_, stack, 1), "Must have type string but got int32");
  const ops::StackCloseV2 close(scope_, stack);
  ExpectError(ops::StackPushV2(scope_.WithControlDependencies({close}), stack, "d"),
              "has already been closed.");
}

}  // namespace
}  // namespace millrace
