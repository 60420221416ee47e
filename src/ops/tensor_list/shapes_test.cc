// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(TensorListShapes, HandlesAreScalars) {
  Expect(Op("EmptyTensorList"), "[];[]", "[]");
  Expect(Op("TensorListReserve"), "[2];[]", "[]");
  Expect(Op("TensorListReserve"), "[2];[1]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("TensorListReserve"), "[2,2];[]", "e;Shape must be rank 1 but is rank 2");
  Expect(Op("TensorListPushBack"), "[];[3]", "[]");
  Expect(Op("TensorListPushBackBatch"), "[3];[3,2]", "in0");
  Expect(Op("TensorListResize"), "[];[]", "[]");
  Expect(Op("TensorListSetItem"), "[];[];?", "[]");
  Expect(Op("TensorListSetItem"), "[];[1];?", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("TensorListLength"), "[]", "[]");
  Expect(Op("TensorListElementShape"), "[]", "?");
  Expect(Op("TensorListConcatLists"), "[2];[2]", "in0|in1");
  Expect(Op("TensorListConcatLists"), "[2];[3]", "e;must be equal");
  Expect(Op("TensorListSplit"), "[2,3];[2];[2]", "[]");
  Expect(Op("TensorListSplit"), "[];[2];[2]", "e;Shape must be at least rank 1 but is rank 0");
}

TEST(TensorListShapes, ElementsHaveTheRequestedShape) {
  Expect(Op("TensorListGetItem"), "[];[];?", "?");
  Expect(Op("TensorListGetItem").Const(2, {2, 3}), "[];[];[2]", "[2,3]");
  Expect(Op("TensorListGetItem").Const(2, {2, -1}), "[];[];[2]", "[2,?]");
  Expect(Op("TensorListGetItem").ConstScalar(2, -1), "[];[];[]", "?");
  Expect(Op("TensorListGetItem"), "[];[];[2]", "[?,?]");
  Expect(Op("TensorListPopBack").Const(1, {4}), "[];[1]", "[];[4]");
  Expect(Op("TensorListStack").Const(1, {4}), "[];[1]", "[?,4]");
  Expect(Op("TensorListStack").Attr("num_elements", 3).Const(1, {4}), "[];[1]", "[3,4]");
  Expect(Op("TensorListStack").Attr("num_elements", -2), "[];[1]", "e;num_elements");
  Expect(Op("TensorListStack"), "[];?", "?");
  Expect(Op("TensorListGather").Const(2, {4}), "[];[7];[1]", "[d1_0,4]");
  Expect(Op("TensorListGather").Const(2, {4}), "[];[];[1]", "e;Shape must be rank 1 but is rank 0");
}

TEST(TensorListShapes, RowsAreLikeElements) {
  Expect(Op("TensorListFromTensor").Const(1, {3}), "[5,3];[1]", "[]");
  Expect(Op("TensorListFromTensor").Const(1, {4}), "[5,3];[1]", "e;must be equal, but are 3 and 4");
  Expect(Op("TensorListFromTensor"), "[];[0]", "e;Shape must be at least rank 1 but is rank 0");
  Expect(Op("TensorListScatter").Const(2, {3}), "[5,3];[5];[1]", "[]");
  Expect(Op("TensorListScatter"), "[5,3];[4];?", "e;must be equal, but are 4 and 5");
  Expect(Op("TensorListScatterV2"), "[5,3];[5];?;[]", "[]");
  Expect(Op("TensorListScatterIntoExistingList"), "[];[5,3];[5]", "[]");
  Expect(Op("TensorListScatterIntoExistingList"), "[];[5,3];[6]", "e;must be equal, but are 6 and 5");
}

TEST(TensorListShapes, ConcatenationInfersAllButTheRows) {
  Expect(Op("TensorListConcat"), "[]", "?;[?]");
  Expect(Op("TensorListConcat").Attr("element_shape", PartialShape({2, 3})), "[]", "[?,3];[?]");
  Expect(Op("TensorListConcatV2").Const(1, {-1, 3}), "[];[2];[4]", "[?,3];[?]");
  Expect(Op("TensorListConcatV2"), "[];?;[4]", "?;[?]");
  Expect(Op("TensorListConcatV2").Const(1, std::vector<int>{}), "[];[0];[4]",
         "e;Shape must be at least rank 1 but is rank 0");
}

}  // namespace
}  // namespace millrace
