// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/status.h"

// Zip archives in memory: stored and deflated members, also with 64-bit sizes; no encryption, no volumes.
namespace millrace::io {

struct ZipMember {
  std::string_view name;
  std::string_view packed;  // as it stands in the archive
  uint64_t size = 0;        // unpacked
  uint32_t crc = 0;         // CRC-32 of that
  bool deflated = false;
};

// The members that the directory at the end of the archive lists; views of `archive`. DataLoss if it is
// inconsistent. `what` names the archive in errors.
StatusOr<std::vector<ZipMember>> ListZip(std::string_view archive, const std::string& what);
// Unpacks and checks size and checksum. Allocates memory as data arrives, at most 1032 times the packed size.
StatusOr<std::string> UnpackZipMember(const ZipMember& member, const std::string& what);

// Makes an archive of stored members.
class ZipWriter {
 public:
  // ResourceExhausted beyond the limits of a plain archive: 4 GiB, 65,535 members, names of 64 KiB.
  Status Add(std::string_view name, std::string_view data);
  std::string Finish() &&;

 private:
  std::string archive_;
  std::string directory_;
  uint32_t count_ = 0;
};

}  // namespace millrace::io
