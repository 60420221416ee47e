// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "millrace/cluster.h"
#include "millrace/status.h"

namespace millrace {

// ClusterSecurity with the contents of its files.
struct ChannelSecurity {
  std::string token;
  std::string ca;
  std::string certificate;
  std::string key;

  // Whether this side uses TLS for its calls.
  bool encrypts() const { return !ca.empty() || !certificate.empty(); }
  // Whether callers have to authenticate.
  bool authenticates() const { return !token.empty() || (!ca.empty() && !certificate.empty()); }
};

// InvalidArgument for a token that is too short or has characters other than printable ASCII, for a
// certificate without a key, and for a file that is not PEM; the error of the file system when a file can't
// be read.
StatusOr<ChannelSecurity> LoadSecurity(const ClusterSecurity& security);

// Takes the same time for any `shown` of the same length.
bool SameSecret(std::string_view secret, std::string_view shown);

}  // namespace millrace
