// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Strings and bytes that the rows of unicode.optest can't express.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

// A string literal including zeros.
template <size_t N>
std::string Bytes(const char (&text)[N]) {
  return std::string(text, N - 1);
}
Tensor Strings(const std::vector<std::string>& values) { return Tensor::Vector<std::string>(values); }

struct Text {
  std::string encoding, errors = "replace";
  int64_t replacement = 0xFFFD;
  bool controls = false;
};
StatusOr<std::vector<Tensor>> Decode(const Text& text, const std::vector<std::string>& strings) {
  return KernelRunner("UnicodeDecodeWithOffsets")
      .Attr("input_encoding", text.encoding)
      .Attr("errors", text.errors)
      .Attr("replacement_char", text.replacement)
      .Attr("replace_control_characters", text.controls)
      .Attr("Tsplits", DataType::kInt32)
      .Input(Strings(strings))
      .Run();
}
StatusOr<Tensor> Transcode(const std::string& from, const std::string& to, const std::string& text) {
  return KernelRunner("UnicodeTranscode")
      .Attr("input_encoding", from)
      .Attr("output_encoding", to)
      .Input(Tensor::Scalar(text))
      .RunOne();
}

void ExpectDecoded(const StatusOr<std::vector<Tensor>>& got, const std::vector<int32_t>& splits,
                   const std::vector<int32_t>& values, const std::vector<int64_t>& starts) {
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Tensor::Vector<int32_t>(splits), (*got)[0]);
  ExpectTensorEqual(Tensor::Vector<int32_t>(values), (*got)[1]);
  ExpectTensorEqual(Tensor::Vector<int64_t>(starts), (*got)[2]);
}

TEST(UnicodeTest, CodePointsAndTheirPlacesInEachEncoding) {
  // "aé€" and U+1F600.
  const std::vector<int32_t> points = {'a', 0xE9, 0x20AC, 0x1F600};
  ExpectDecoded(Decode({"UTF-8"}, {"a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", ""}), {0, 4, 4}, points,
                {0, 1, 3, 6});
  ExpectDecoded(Decode({"UTF-16-BE"}, {Bytes("\0a\0\xE9\x20\xAC\xD8\x3D\xDE\0")}), {0, 4}, points,
                {0, 2, 4, 6});
  ExpectDecoded(Decode({"UTF-32-BE"}, {Bytes("\0\0\0a\0\0\0\xE9\0\0\x20\xAC\0\1\xF6\0")}), {0, 4}, points,
                {0, 4, 8, 12});
  ExpectDecoded(Decode({"ISO-8859-1"}, {"a\xE9"}), {0, 2}, {'a', 0xE9}, {0, 1});
}

TEST(UnicodeTest, BytesThatAreNoTextAreReplacedLeftOutOrRefused) {
  const std::vector<std::string> broken = {"a\xFF\x62", "\xE2\x82", "c"};
  ExpectDecoded(Decode({"UTF-8"}, broken), {0, 3, 4, 5}, {'a', 0xFFFD, 'b', 0xFFFD, 'c'}, {0, 1, 2, 0, 0});
  ExpectDecoded(Decode({"UTF-8", "replace", '?'}, broken), {0, 3, 4, 5}, {'a', '?', 'b', '?', 'c'},
                {0, 1, 2, 0, 0});
  ExpectDecoded(Decode({"UTF-8", "ignore"}, broken), {0, 2, 2, 3}, {'a', 'b', 'c'}, {0, 2, 0});
  EXPECT_EQ(Decode({"UTF-8", "strict"}, broken).status(),
            errors::InvalidArgument("Invalid formatting on input string"));
}

TEST(UnicodeTest, ControlCharactersAreReplacedOnRequest) {
  ExpectDecoded(Decode({"UTF-8", "replace", 0xFFFD, true}, {"a\n\x7F"}), {0, 3}, {'a', 0xFFFD, 0x7F},
                {0, 1, 2});
  ExpectDecoded(Decode({"UTF-8", "ignore", 0xFFFD, true}, {"a\n\x7F"}), {0, 2}, {'a', 0x7F}, {0, 2});
  ExpectDecoded(Decode({"UTF-8"}, {"\n"}), {0, 1}, {'\n'}, {0});
}

TEST(UnicodeTest, FromOneEncodingToAnother) {
  const std::string utf8 = "a\xE2\x82\xAC\xF0\x9F\x98\x80", utf16 = Bytes("\0a\x20\xAC\xD8\x3D\xDE\0"),
                    utf32 = Bytes("\0\0\0a\0\0\x20\xAC\0\1\xF6\0");
  for (const auto& [to, text] : {std::pair("UTF-8", utf8), {"UTF-16-BE", utf16}, {"UTF-32-BE", utf32}}) {
    for (const auto& [from, same] : {std::pair("UTF-8", utf8), {"UTF-16-BE", utf16}, {"UTF-32-BE", utf32}}) {
      const auto got = Transcode(from, to, same);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->scalar<std::string>(), text) << from << " to " << to;
    }
  }
}

TEST(UnicodeTest, EncodesCodePoints) {
  const auto encode = [](const char* encoding, const char* errors_attr) {
    return KernelRunner("UnicodeEncode")
        .Attr("output_encoding", encoding)
        .Attr("errors", errors_attr)
        .Input(Tensor::Vector<int32_t>({0x1F600, 'a', 0xD800, 0x110000, 'b'}))
        .Input(Tensor::Vector<int64_t>({0, 1, 1, 5}))
        .RunOne();
  };
  auto got = encode("UTF-16-BE", "ignore");
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Strings({Bytes("\xD8\x3D\xDE\0"), "", Bytes("\0a\0b")}), *got);
  got = encode("UTF-32-BE", "replace");
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Strings({Bytes("\0\1\xF6\0"), "", Bytes("\0\0\0a\0\0\xFF\xFD\0\0\xFF\xFD\0\0\0b")}),
                    *got);
  EXPECT_EQ(encode("UTF-8", "strict").status(),
            errors::InvalidArgument("Code point is out of range for Unicode, or a noncharacter."));
}

}  // namespace
}  // namespace millrace
