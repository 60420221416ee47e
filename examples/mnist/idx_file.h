// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/status.h"

namespace millrace::mnist {

// An array of bytes with its dimensions, as an IDX file holds it.
struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
};

// Parses the bytes of an IDX file (plain, or one gzip member) that must hold unsigned bytes of rank `rank`
// and at most `max_elements` of them. Memory grows with the data that really comes, never with what a header
// claims. Errors name the file as `what`.
StatusOr<IdxArray> ParseIdx(std::span<const uint8_t> file, int rank, int64_t max_elements,
                            const std::string& what);

// Reads a whole regular file of at most 256 MiB.
StatusOr<std::vector<uint8_t>> ReadSmallFile(const std::string& path);

}  // namespace millrace::mnist
