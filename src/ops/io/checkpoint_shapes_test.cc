// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(CheckpointShapesTest, NamesAreAsManyAsTensors) {
  const auto save = [](const char* op, const char* attr, int n) {
    return Op(op).Attr(attr, std::vector<DataType>(static_cast<size_t>(n), DataType::kFloat));
  };
  Expect(save("SaveV2", "dtypes", 2), "[];[2];[2];?;[3]", "");
  Expect(save("SaveV2", "dtypes", 2), "?;?;?;?;?", "");
  Expect(save("SaveV2", "dtypes", 2), "[1];[2];[2];?;[3]", "e;must be rank 0");
  Expect(save("SaveV2", "dtypes", 2), "[];[];[2];?;[3]", "e;must be rank 1");
  Expect(save("SaveV2", "dtypes", 2), "[];[2];[3];?;[3]", "e;must be 2");
  Expect(save("Save", "T", 1), "[];[1];?", "");
  Expect(save("Save", "T", 1), "[];[2];?", "e;must be 1");
  Expect(save("SaveSlices", "T", 1), "[];[1];[1];?", "");
  Expect(save("SaveSlices", "T", 1), "[];[1];[4];?", "e;must be 1");
}

TEST(CheckpointShapesTest, SlicesSayWhatIsRestored) {
  const auto restore = [] {
    return Op("RestoreV2").Attr("dtypes", std::vector<DataType>{DataType::kFloat, DataType::kInt32});
  };
  Expect(restore(), "[];[2];[2]", "?;?");
  Expect(restore(), "[];[2];[3]", "e;must be equal");
  Expect(restore(), "[2];[2];[2]", "e;must be rank 0");
  Expect(restore().Const(2, Tensor::Vector<std::string>({"4 10 0,2:-", ""})), "[];[2];[2]", "[2,10];?");
  Expect(restore().Const(2, Tensor::Vector<std::string>({"4 10 0,5:-", ""})), "[];[2];[2]",
         "e;out of bounds");
  Expect(restore().Const(2, Tensor::Vector<std::string>({""})), "[];[1];[1]",
         "e;doesn't match tensor outputs");
  Expect(Op("Restore").Attr("dt", DataType::kFloat), "[];[]", "?");
  Expect(Op("Restore").Attr("dt", DataType::kFloat), "[];[1]", "e;must be rank 0");
  Expect(Op("RestoreSlice").Attr("dt", DataType::kFloat), "[];[];[]", "?");
  Expect(Op("RestoreSlice").Attr("dt", DataType::kFloat).Const(2, Tensor::Scalar("7 -")), "[];[];[]", "[7]");
}

TEST(CheckpointShapesTest, PrefixesAreAVector) {
  Expect(Op("MergeV2Checkpoints"), "[3];[]", "");
  Expect(Op("MergeV2Checkpoints"), "[];[]", "e;must be rank 1");
}

}  // namespace
}  // namespace millrace
