// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(ControlFlowShapes, SwitchAndMerge) {
  for (const char* op : {"Switch", "RefSwitch"}) {
    Expect(Op(op), "[2,?];[]", "in0;in0");
    Expect(Op(op), "[2];[1]", "e;Shape must be rank 0 but is rank 1");
  }
  for (const char* op : {"Merge", "RefMerge"}) {
    Expect(Op(op), "[2,?];[2,?]", "[d0_0,?];[]");
    Expect(Op(op), "[2,3];[2,4]", "[d0_0,?];[]");
    Expect(Op(op), "[2,3];[2]", "?;[]");
    Expect(Op(op), "[2,3];?", "?;[]");
    Expect(Op(op), "[2,?]", "in0;[]");
  }
  ShapeTester handle = Op("Switch").Attr("T", DataType::kResource).Handle(0, "[3]", DataType::kFloat);
  handle.Infer("[];[]");
  EXPECT_EQ(handle.HandleOf(1), "[3]:float");
}

TEST(ControlFlowShapes, Loops) {
  const auto enter = [](const char* op) { return Op(op).Attr("frame_name", "f"); };
  Expect(enter("Enter"), "[2]", "?");
  Expect(enter("Enter").Attr("is_constant", true), "[2]", "in0");
  Expect(enter("RefEnter"), "[2]", "in0");
  for (const char* op : {"Exit", "RefExit", "NextIteration", "RefNextIteration"}) ExpectUnchanged(op);
  Expect(Op("LoopCond"), "?", "[]");
  Expect(Op("LoopCond"), "[]", "in0");
  Expect(Op("LoopCond"), "[1]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("ControlTrigger"), "", "");
  Expect(Op("Abort"), "", "");
}

TEST(ControlFlowShapes, TransfersAndNoOp) {
  Expect(Op("NoOp"), "", "");
  const auto with_transfer = [](const char* op) {
    return Op(op)
        .Attr("tensor_name", "t")
        .Attr("send_device", "a")
        .Attr("recv_device", "b")
        .Attr("send_device_incarnation", 1);
  };
  Expect(with_transfer("_Send"), "[2]", "");
  Expect(with_transfer("_HostSend"), "[2]", "");
  Expect(with_transfer("_Recv"), "", "?");
  Expect(with_transfer("_HostRecv"), "", "?");
  Expect(Op("_Arg").Attr("index", 0), "", "?");
  Expect(Op("_Retval").Attr("index", 0), "[2]", "");
  Expect(Op("_Retval").Attr("index", -1), "[2]", "e;Value for attr 'index' of -1 must be at least minimum 0");
}

}  // namespace
}  // namespace millrace
