// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_example_seeds DIR writes Examples in all forms that FuzzExample accepts to DIR/example.
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "tensorflow/core/example/example.pb.h"

namespace {

constexpr char kFeatures[] =
    " feature { key: 'i' value { int64_list { value: [1, -2, 300] } } }"
    " feature { key: 'f' value { float_list { value: [0.5, 2] } } }"
    " feature { key: 's' value { bytes_list { value: ['a', '', 'bcd'] } } }"
    " feature { key: 'di' value { int64_list { value: [3, 4] } } }"
    " feature { key: 'df' value { float_list { value: 5 } } }"
    " feature { key: 'vs' value { bytes_list { value: 'x' } } }"
    " feature { key: 'vi' value { int64_list { value: [1, 2, 3, 4] } } }"
    " feature { key: 'other' value { bytes_list { value: 'unused' } } } ";
constexpr char kLists[] =
    " feature_list { key: 'i' value { feature { int64_list { value: [1, 2] } } feature { } } }"
    " feature_list { key: 's' value { feature { bytes_list { value: 'y' } } } }"
    " feature_list { key: 'df' value { feature { float_list { value: 1 } } feature { float_list { value: 2 } "
    "} } }"
    " feature_list { key: 'vi' value { feature { int64_list { value: [1, 2] } } } } ";

template <typename Message>
std::string Bytes(const std::string& text) {
  Message message;
  if (!google::protobuf::TextFormat::ParseFromString(text, &message)) std::cerr << "bad text\n";
  return message.SerializeAsString();
}

std::string Sized(const std::string& bytes) {
  return std::string{static_cast<char>(bytes.size() >> 8), static_cast<char>(bytes.size())} + bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_example_seeds DIR\n";
    return 2;
  }
  const std::filesystem::path dir = std::filesystem::path(argv[1]) / "example";
  std::filesystem::create_directories(dir);
  const auto write = [&](const char* name, char mode, const std::string& bytes) {
    std::ofstream(dir / name, std::ios::binary) << mode << bytes;
  };
  const auto example = Bytes<tensorflow::Example>(std::string("features {") + kFeatures + "}");
  const auto sequence = Bytes<tensorflow::SequenceExample>(std::string("context {") + kFeatures +
                                                           "} feature_lists {" + kLists + "}");
  write("example", 0, example);
  write("context", 1, sequence);
  write("lists", 2, sequence);
  write("examples", 4, Sized(example) + Sized("") + Sized(example));
  write("contexts", 5, Sized(sequence) + Sized(""));
  write("sequences", 6, Sized(sequence) + Sized("") + Sized(sequence));
  // Unpacked numbers, as from older writers, between other fields.
  const std::string unpacked("\x1a\x06\x08\x05\x0a\x02\x01\x02", 8), entry = "\x0a\x01i\x12\x08" + unpacked;
  write("unpacked", 0, "\x0a\x0f\x0a\x0d" + entry);
  return 0;
}
