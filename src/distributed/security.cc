// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/security.h"

#include <algorithm>
#include <cstdlib>

#include "base/env.h"
#include "base/strings.h"

namespace millrace {
namespace {

constexpr size_t kShortestToken = 16;
constexpr size_t kLongestToken = 4096;
constexpr uint64_t kLargestFile = 1 << 20;

StatusOr<std::string> ReadPem(const std::string& path, std::string_view what) {
  if (path.empty()) return std::string();
  MR_ASSIGN_OR_RETURN(std::string text, ReadFileToString(Env::Posix(), path, kLargestFile));
  if (text.find("-----BEGIN ") == std::string::npos)
    return errors::InvalidArgument(path, ", given as ", what, ", is not a PEM file");
  return text;
}

StatusOr<std::string> ReadToken(const std::string& path) {
  if (path.empty()) return std::string();
  MR_ASSIGN_OR_RETURN(std::string text, ReadFileToString(Env::Posix(), path, kLargestFile));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (text.size() < kShortestToken || text.size() > kLongestToken || !printable) {
    return errors::InvalidArgument("The token in ", path, " must be one line of ", kShortestToken,
                                   " or more printable characters without spaces");
  }
  return text;
}

}  // namespace

ClusterSecurity ClusterSecurity::FromEnvironment() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {.token_file = variable("MILLRACE_TOKEN_FILE"),
          .ca_file = variable("MILLRACE_TLS_CA"),
          .certificate_file = variable("MILLRACE_TLS_CERT"),
          .key_file = variable("MILLRACE_TLS_KEY")};
}

StatusOr<ChannelSecurity> LoadSecurity(const ClusterSecurity& security) {
  if (security.certificate_file.empty() != security.key_file.empty())
    return errors::InvalidArgument("TLS needs both a certificate and its private key");
  ChannelSecurity loaded;
  MR_ASSIGN_OR_RETURN(loaded.token, ReadToken(security.token_file));
  MR_ASSIGN_OR_RETURN(loaded.ca, ReadPem(security.ca_file, "the authority of certificates"));
  MR_ASSIGN_OR_RETURN(loaded.certificate, ReadPem(security.certificate_file, "a certificate"));
  MR_ASSIGN_OR_RETURN(loaded.key, ReadPem(security.key_file, "a private key"));
  return loaded;
}

bool SameSecret(std::string_view secret, std::string_view shown) {
  if (secret.size() != shown.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < secret.size(); ++i)
    difference = static_cast<unsigned char>(difference | (secret[i] ^ shown[i]));
  return difference == 0;
}

}  // namespace millrace
