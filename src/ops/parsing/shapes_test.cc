// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shapes of parsed Examples: lists with the specified lengths, and others.
#include "ops/shape_checks.h"

namespace millrace {
namespace {

using Types = std::vector<DataType>;
using Shapes = std::vector<PartialShape>;

ShapeTester SequenceExample(int64_t dense) {
  return Op("ParseSequenceExample")
      .Attr("feature_list_dense_missing_assumed_empty", std::vector<std::string>{})
      .Attr("context_sparse_keys", std::vector<std::string>{})
      .Attr("context_dense_keys", std::vector<std::string>{})
      .Attr("feature_list_sparse_keys", std::vector<std::string>{})
      .Attr("feature_list_dense_keys", std::vector<std::string>{"a"})
      .Attr("Nfeature_list_dense", dense)
      .Attr("feature_list_dense_types", Types{DataType::kFloat})
      .Attr("feature_list_dense_shapes", Shapes{PartialShape({3})});
}

TEST(ParsingShapes, SequenceExamples) {
  Expect(SequenceExample(1), "[7];[]", "[d0_0,?,3];[d0_0]");
  // There would be fewer outputs than shapes.
  Expect(SequenceExample(0), "[7];[]", "e;len(dense_keys) != len(dense_types)");
  Expect(SequenceExample(2), "[7];[]", "e;len(dense_keys) != len(dense_types)");
}

TEST(ParsingShapes, Examples) {
  const auto example = [](int64_t sparse, int64_t dense) {
    return Op("ParseExample")
        .Attr("Nsparse", sparse)
        .Attr("Ndense", dense)
        .Attr("sparse_types", Types{DataType::kInt64})
        .Attr("Tdense", Types{DataType::kFloat})
        .Attr("dense_shapes", Shapes{PartialShape({3})});
  };
  Expect(example(1, 1), "[7];[7];[];[];[3]", "[?,2];[?];[2];[d0_0,3]");
  Expect(example(2, 1), "[7];[7];[];[];[];[3]", "e;len(sparse_keys) != len(sparse_types)");
  Expect(example(1, 2), "[7];[7];[];[];[];[3]", "e;len(dense_keys) != len(dense_types)");
}

TEST(ParsingShapes, Messages) {
  const auto decode = [] {
    return Op("DecodeProtoV2")
        .Attr("message_type", "tensorflow.VersionDef")
        .Attr("field_names", std::vector<std::string>{"producer", "bad_consumers"})
        .Attr("output_types", std::vector<DataType>{DataType::kInt32, DataType::kInt32});
  };
  Expect(decode(), "[3,?]", "[d0_0,d0_1,2];[d0_0,d0_1,?];[d0_0,d0_1,?]");
  Expect(decode(), "?", "?;?;?");
  const auto encode = [] {
    return Op("EncodeProto")
        .Attr("message_type", "tensorflow.VersionDef")
        .Attr("field_names", std::vector<std::string>{"producer"})
        .Attr("Tinput_types", std::vector<DataType>{DataType::kInt32});
  };
  Expect(encode(), "[3,1];[3,9]", "[d0_0]");
  Expect(encode(), "[3,1];[4,9]", "e;Dimension 0 in both shapes must be equal, but are 3 and 4");
  Expect(encode(), "[3,1];[]", "e;at least rank 1 but is rank 0");
}

}  // namespace
}  // namespace millrace
