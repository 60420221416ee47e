// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_c_api_seeds DIR writes seeds of the fuzzer of the C API to DIR/c_api: of many random inputs those in
// which a call has an outcome that did not occur before.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "base/strings.h"
#include "tests/fuzz/c_api_world.h"
#include "tests/fuzz/fuzz_targets.h"

namespace {

constexpr int kTried = 20000;
constexpr size_t kMostBytes = 1200;

std::string RandomBytes(std::mt19937& rng) {
  std::string bytes(rng() % kMostBytes + 1, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(rng()); });
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_c_api_seeds DIR\n";
    return 2;
  }
  millrace::FuzzCApi("");  // initialises everything
  const std::filesystem::path dir = std::filesystem::path(argv[1]) / "c_api";
  std::filesystem::create_directories(dir);
  std::mt19937 rng(1);
  millrace::c_api_fuzz::Outcomes seen;
  for (int i = 0; i < kTried; ++i) {
    const std::string bytes = RandomBytes(rng);
    const size_t before = seen.size();
    millrace::c_api_fuzz::RunCalls(bytes, &seen);
    if (seen.size() == before) continue;
    std::ofstream(dir / millrace::StrCat("calls_", i), std::ios::binary) << bytes;
  }
  for (const auto& [call, code] : seen) std::cout << call << " " << code << "\n";
  return 0;
}
