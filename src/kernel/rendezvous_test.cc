// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/rendezvous.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr char kCpu0[] = "/job:localhost/replica:0/task:0/device:CPU:0";
constexpr char kCpu1[] = "/job:localhost/replica:0/task:0/device:CPU:1";

TEST(RendezvousKeyTest, HasTensorFlowsFormat) {
  const auto key = Rendezvous::Key::Make(kCpu0, 0xabc, kCpu1, "edge_7_x", 3, -2);
  EXPECT_EQ(key.text, std::string(kCpu0) + ";0000000000000abc;" + kCpu1 + ";edge_7_x;3:-2");
}

TEST(RendezvousKeyTest, ParseFindsThePartsThatMakeWasGiven) {
  const auto key = Rendezvous::Key::Make(kCpu0, 0xfedcba9876543210u, kCpu1, "t", ~uint64_t{0}, 12);
  auto parts = Rendezvous::Key::Parse(key.text);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->src_device, kCpu0);
  EXPECT_EQ(parts->dst_device, kCpu1);
  EXPECT_EQ(parts->tensor_name, "t");
  EXPECT_EQ(parts->src_incarnation, 0xfedcba9876543210u);
  EXPECT_EQ(parts->frame, ~uint64_t{0});
  EXPECT_EQ(parts->iteration, 12);
}

TEST(RendezvousKeyTest, EqualTextsHaveEqualHashes) {
  EXPECT_EQ(Rendezvous::Key::Make(kCpu0, 1, kCpu1, "a").hash,
            Rendezvous::Key::Make(kCpu0, 1, kCpu1, "a").hash);
  EXPECT_NE(Rendezvous::Key::Make(kCpu0, 1, kCpu1, "a").hash,
            Rendezvous::Key::Make(kCpu0, 1, kCpu1, "b").hash);
}

TEST(RendezvousKeyTest, MalformedKeysAreRefused) {
  const std::string a = kCpu0, b = kCpu1;
  for (const std::string& bad :
       {std::string(), std::string("a;b;c;d;e"), StrCat(a, ";1;", b, ";t"), StrCat(a, ";1;", b, ";t;0:0;x"),
        StrCat(a, ";;", b, ";t;0:0"), StrCat(a, ";11112222333344445;", b, ";t;0:0"),
        StrCat(a, ";0x1;", b, ";t;0:0"), StrCat(a, ";1;", b, ";;0:0"), StrCat(a, ";1;", b, ";t;0"),
        StrCat(a, ";1;", b, ";t;-1:0"), StrCat(a, ";1;", b, ";t;0:x"), StrCat(a, ";1;/job:a;t;0:0"),
        StrCat("nonsense;1;", b, ";t;0:0")}) {
    const Status status = Rendezvous::Key::Parse(bad).status();
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << bad;
    EXPECT_EQ(status.message(), "Invalid rendezvous key: " + bad);
  }
}

}  // namespace
}  // namespace millrace
