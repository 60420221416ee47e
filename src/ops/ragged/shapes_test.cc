// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(RaggedShapes, Range) {
  Expect(Op("RaggedRange"), "[];[];[]", "[2];[?]");
  Expect(Op("RaggedRange"), "[3];[];[3]", "[4];[?]");
  Expect(Op("RaggedRange"), "?;[];[]", "[?];[?]");
  Expect(Op("RaggedRange"), "[3];[4];[]", "e;Dimensions must be equal, but are 3 and 4");
  Expect(Op("RaggedRange"), "[];[1,1];[]", "e;at most rank 1 but is rank 2");
}

TEST(RaggedShapes, Gather) {
  const auto gather = [](int64_t params, int64_t output) {
    return Op("RaggedGather").Attr("PARAMS_RAGGED_RANK", params).Attr("OUTPUT_RAGGED_RANK", output);
  };
  Expect(gather(1, 1), "[4];[9,2];[3]", "[?];[?,d1_1]");
  Expect(gather(2, 3), "[4];[5];[9];[3,1]", "[?];[?];[?];[?]");
  Expect(gather(1, 0), "[4];?;[]", "?");
  Expect(gather(1, 1), "[4];[9,2];[3,1]", "e;Shape must be rank 1 but is rank 2");
  Expect(gather(1, 1), "[4,1];[9,2];[3]", "e;Shape must be rank 1 but is rank 2");
  Expect(gather(1, 1), "[4];[];[3]", "e;Shape must be at least rank 1 but is rank 0");
}

TEST(RaggedShapes, ToSparse) {
  const auto to_sparse = [](int64_t depth) { return Op("RaggedTensorToSparse").Attr("RAGGED_RANK", depth); };
  Expect(to_sparse(2), "[4];[5];[9]", "[9,3];[9];[3]");
  Expect(to_sparse(1), "[4];[9,2]", "[18,3];[18];[3]");
  Expect(to_sparse(1), "[4];?", "[?,?];[?];[?]");
  Expect(to_sparse(1), "[];[9]", "e;Shape must be rank 1 but is rank 0");
}

TEST(RaggedShapes, ToTensor) {
  const auto to_tensor = [] {
    return Op("RaggedTensorToTensor")
        .Attr("num_row_partition_tensors", int64_t{1})
        .Attr("row_partition_types", std::vector<std::string>{"ROW_SPLITS"});
  };
  Expect(to_tensor(), "[];[9];[];[4]", "?");
  Expect(to_tensor().Const(0, {-1, 3}), "[2];[9];[];[4]", "[?,3]");
  Expect(to_tensor(), "[2];[9];[];[4]", "?");
  Expect(to_tensor(), "[2,1];[9];[];[4]", "e;at most rank 1 but is rank 2");
}

TEST(RaggedShapes, ToVariant) {
  const auto to_variant = [](int64_t depth, bool batched) {
    return Op("RaggedTensorToVariant").Attr("RAGGED_RANK", depth).Attr("batched_input", batched);
  };
  Expect(to_variant(2, false), "[4];[5];[9]", "[]");
  Expect(to_variant(2, true), "[4];[5];[9]", "[3]");
  Expect(to_variant(1, true), "?;?", "[?]");
  Expect(to_variant(1, true), "[0];[9]", "e;Negative dimension size");
  Expect(to_variant(1, true), "[4];[]", "e;Shape must be at least rank 1 but is rank 0");
}

TEST(RaggedShapes, FromVariant) {
  const auto from_variant = [](int64_t input, int64_t output) {
    return Op("RaggedTensorFromVariant")
        .Attr("input_ragged_rank", input)
        .Attr("output_ragged_rank", output)
        .Attr("Tvalues", DataType::kFloat);
  };
  Expect(from_variant(1, 1), "[]", "[?];?");
  Expect(from_variant(1, 2), "[5]", "[?];[?];?");
  Expect(from_variant(-1, 2), "?", "[?];[?];?");
  Expect(from_variant(1, 2), "[]", "e;Shape must be rank 1 but is rank 0");
  Expect(from_variant(2, 1), "[]", "e;output_ragged_rank 1 does not match input_ragged_rank 2");
}

}  // namespace
}  // namespace millrace
