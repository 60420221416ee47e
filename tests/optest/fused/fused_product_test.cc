// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A product fused with an element-wise op gives the bits of the two ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

// The ops that the pass `fuse` takes: functions of one float that give a float.
std::vector<std::string> Activations() {
  std::vector<std::string> names;
  for (const OpRegistration* op : OpRegistry::Global().All()) {
    const ElementwiseForm& form = op->elementwise;
    const AttrDef* const type = op->def.FindAttr("T");
    if (form.operands != ElementwiseForm::Operands::kOne || type == nullptr ||
        form.result != ElementwiseForm::Result::kSame) {
      continue;
    }
    const auto* const types = type->allowed_values.As<std::vector<DataType>>();
    if (types == nullptr || std::ranges::find(*types, DataType::kFloat) != types->end())
      names.push_back(op->def.name);
  }
  return names;
}

Tensor Numbers(const TensorShape& shape) {
  Tensor t(DataType::kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.data<float>()[i] = static_cast<float>((i * 37 + 11) % 41 - 20) / 16;
  return t;
}

// 0 and -0 differ; NaNs are equal.
bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

TEST(FusedProductTest, EachElementwiseOpOfAFloatMayFollowTheProduct) {
  const Tensor a = Numbers({5, 8}), b = Numbers({8, 37});
  const auto product = KernelRunner("MatMul").Input(a).Input(b).RunOne();
  ASSERT_EQ(product.status(), Status());
  const std::vector<std::string> ops = Activations();
  EXPECT_GE(ops.size(), 35u);
  for (const std::string& op : ops) {
    const auto want = KernelRunner(op).Input(*product).RunOne();
    const auto got = KernelRunner("_FusedMatMul")
                         .Attr("num_args", 0)
                         .Attr("fused_ops", std::vector<std::string>{op})
                         .Input(a)
                         .Input(b)
                         .RunOne();
    ASSERT_EQ(want.status(), Status()) << op;
    ASSERT_EQ(got.status(), Status()) << op;
    ASSERT_EQ(got->shape(), want->shape()) << op;
    for (int64_t i = 0; i < want->num_elements(); ++i)
      ASSERT_TRUE(SameBits(got->data<float>()[i], want->data<float>()[i])) << op << " " << i;
  }
}

TEST(FusedProductTest, OpsThatGiveAnotherTypeAreErrors) {
  for (const std::string op : {"IsNan", "PopulationCount", "LogicalNot", "Conj", "Cast", "Softmax"}) {
    const auto got = KernelRunner("_FusedMatMul")
                         .Attr("num_args", 0)
                         .Attr("fused_ops", std::vector<std::string>{op})
                         .Input(Numbers({2, 2}))
                         .Input(Numbers({2, 2}))
                         .RunOne();
    EXPECT_EQ(got.status().code(), ErrorCode::kInvalidArgument) << op;
  }
}

}  // namespace
}  // namespace millrace
