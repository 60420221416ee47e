// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_calls_seeds DIR writes the data of connections for calls to DIR/calls.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/call_socket.h"
#include "distributed/transport.h"

namespace millrace {
namespace {

std::string Frame(CallHeader frame, std::string_view bytes = {}) {
  frame.size = bytes.size();
  return std::string(reinterpret_cast<const char*>(&frame), sizeof(frame)) + std::string(bytes);
}

std::string Request(uint64_t call, Method method, std::string_view bytes, int64_t limit = 0) {
  return Frame(
      {.kind = CallHeader::kRequest, .method = static_cast<uint32_t>(method), .call = call, .number = limit},
      bytes);
}

std::vector<std::pair<std::string, std::string>> Seeds() {
  const std::string to_server(1, '\0'), to_client(1, '\1');
  const std::string ping = Frame({.kind = CallHeader::kPing}), pong = Frame({.kind = CallHeader::kPong});
  const auto cancel = [](uint64_t call) { return Frame({.kind = CallHeader::kCancel, .call = call}); };
  const auto response = [](uint64_t call, std::string_view bytes) {
    return Frame({.kind = CallHeader::kResponse, .call = call}, bytes);
  };
  const auto error = [](uint64_t call, int64_t code) {
    return Frame({.kind = CallHeader::kError, .call = call, .number = code}, "text");
  };
  return {
      {"request", to_server + Request(1, Method::kRunGraph, "run") + ping +
                      Request(2, Method::kRecvTensor, "tensor", 100) + Request(3, Method::kCleanupGraph, "")},
      {"cancel", to_server + Request(1, Method::kRunGraph, "waits__") + cancel(1) + cancel(2) +
                     Request(1, Method::kRunGraph, "again")},
      {"twice", to_server + Request(1, Method::kRunGraph, "waits__") + Request(1, Method::kRunGraph, "same")},
      {"half", to_server + Request(1, Method::kRunGraph, std::string(300, 'x')).substr(0, 200)},
      {"response", to_client + response(2, std::string(200, 'y')) + pong + response(1, "")},
      {"error", to_client + error(1, 14) + error(9, 1) + error(2, -1) + response(1, "late")},
      {"nonsense", to_client + Frame({.kind = 77, .call = 1})},
  };
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "Usage: make_calls_seeds DIR\n";
    return 2;
  }
  const std::filesystem::path folder = std::filesystem::path(argv[1]) / "calls";
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : millrace::Seeds()) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  return 0;
}
