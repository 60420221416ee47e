// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace millrace::cli {

struct HttpRequest {
  std::string path;                          // "/blob"
  std::map<std::string, std::string> query;  // "?series=1&key=2"; escapes are left as they are
  bool too_late = false;                     // an answer that waited has to be given now
};

// Reads the head of a request: all up to the empty line. 0 when it is one that may be answered, or else the
// status to refuse it with: 405 for anything but GET, 400 for what is no HTTP/1 request or has a body, 421
// when `Host` is not the address of a machine, "localhost" or one of `own_names`. A page of another place,
// whose name was made to lead here (DNS rebinding), can't pass that.
int ParseHttpRequest(std::string_view head, std::span<const std::string> own_names, HttpRequest* request);

}  // namespace millrace::cli
