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

// Parses the head of a request: everything up to the empty line. Returns 0 if it is acceptable, or else the
// HTTP status of the refusal: 405 for methods other than GET, 400 for an invalid HTTP/1 request or one with a
// body, 421 if `Host` is not an IP address, "localhost" or one of `own_names`. This protects against DNS
// rebinding by other sites.
int ParseHttpRequest(std::string_view head, std::span<const std::string> own_names, HttpRequest* request);

}  // namespace millrace::cli
