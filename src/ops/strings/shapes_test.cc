// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(StringShapes, Unicode) {
  Expect(Op("UnicodeDecode").Attr("input_encoding", "UTF-8"), "[2,3]", "[7];[?]");
  Expect(Op("UnicodeDecode").Attr("input_encoding", "UTF-8"), "[]", "[2];[?]");
  Expect(Op("UnicodeDecodeWithOffsets").Attr("input_encoding", "UTF-8"), "?", "[?];[?];[?]");
  Expect(Op("UnicodeEncode").Attr("output_encoding", "UTF-8"), "[9];[4]", "[3]");
  Expect(Op("UnicodeEncode").Attr("output_encoding", "UTF-8"), "?;?", "[?]");
  Expect(Op("UnicodeEncode").Attr("output_encoding", "UTF-8"), "[9,1];[4]",
         "e;Shape must be rank 1 but is rank 2");
  Expect(Op("UnicodeEncode").Attr("output_encoding", "UTF-8"), "[9];[]",
         "e;Shape must be rank 1 but is rank 0");
  Expect(Op("UnicodeTranscode").Attr("input_encoding", "UTF-8").Attr("output_encoding", "UTF-8"), "[2,?]",
         "in0");
  ExpectUnchanged("UnicodeScript");
}

TEST(StringShapes, UnsortedSegmentJoin) {
  Expect(Op("UnsortedSegmentJoin").ConstScalar(2, 7), "[5,2,3];[5,2];[]", "[7,d0_2]");
  Expect(Op("UnsortedSegmentJoin"), "[5];[5];[]", "[?]");
  Expect(Op("UnsortedSegmentJoin"), "[5];[5];[1]", "e;Shape must be rank 0 but is rank 1");
}

}  // namespace
}  // namespace millrace
