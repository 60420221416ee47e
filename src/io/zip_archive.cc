// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <optional>

namespace millrace::io {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEndOfDirectory = 0x06054b50;
constexpr uint32_t kEndOfDirectory64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kLongestComment = 0xffff;
constexpr uint32_t kIn64Bits = 0xffffffff;  // the number is in the extra field
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint64_t kMostOfDeflate = 1032;  // the format can't expand more

uint64_t Fixed(std::string_view bytes, size_t at, int count) {
  uint64_t v = 0;
  for (int i = 0; i < count; ++i) v |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return v;
}

void Append(uint64_t value, int count, std::string* out) {
  for (int i = 0; i < count; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

Status Broken(const std::string& what, std::string_view why) {
  return errors::DataLoss(what, " is not a valid zip archive: ", why);
}

struct Directory {
  uint64_t offset = 0;
  uint64_t count = 0;
};

// The offset of the end record; a comment of any length may follow it.
std::optional<size_t> FindEnd(std::string_view archive) {
  if (archive.size() < kEndBytes) return std::nullopt;
  const size_t last = archive.size() - kEndBytes;
  const size_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (Fixed(archive, at, 4) == kEndOfDirectory &&
        at + kEndBytes + Fixed(archive, at + 20, 2) == archive.size())
      return at;
  }
  return std::nullopt;
}

StatusOr<Directory> FindDirectory(std::string_view archive, const std::string& what) {
  const std::optional<size_t> end = FindEnd(archive);
  if (!end) return Broken(what, "it has no directory");
  Directory d{Fixed(archive, *end + 16, 4), Fixed(archive, *end + 10, 2)};
  if (d.offset != kIn64Bits && d.count != 0xffff) return d;
  if (*end < kLocatorBytes || Fixed(archive, *end - kLocatorBytes, 4) != kLocator64) return d;
  const uint64_t at = Fixed(archive, *end - kLocatorBytes + 8, 8);
  if (archive.size() < kEnd64Bytes || at > archive.size() - kEnd64Bytes ||
      Fixed(archive, at, 4) != kEndOfDirectory64) {
    return Broken(what, "its directory is not where it says");
  }
  return Directory{Fixed(archive, at + 48, 8), Fixed(archive, at + 32, 8)};
}

// Replaces numbers by those in the extra field, which has them in order.
Status ReadExtra64(std::string_view extra, uint64_t* size, uint64_t* packed, uint64_t* offset,
                   const std::string& what) {
  while (extra.size() >= 4) {
    const uint64_t id = Fixed(extra, 0, 2);
    const uint64_t length = Fixed(extra, 2, 2);
    extra.remove_prefix(4);
    if (length > extra.size()) break;
    std::string_view field = extra.substr(0, length);
    extra.remove_prefix(length);
    if (id != kExtra64) continue;
    for (uint64_t* number : {size, packed, offset}) {
      if (*number != kIn64Bits) continue;
      if (field.size() < 8) return Broken(what, "a size is missing");
      *number = Fixed(field, 0, 8);
      field.remove_prefix(8);
    }
  }
  return Status();
}

StatusOr<ZipMember> ReadEntry(std::string_view archive, uint64_t* at, const std::string& what) {
  if (archive.size() < kDirectoryEntryBytes || *at > archive.size() - kDirectoryEntryBytes ||
      Fixed(archive, *at, 4) != kDirectoryEntry) {
    return Broken(what, "its directory ends early");
  }
  const uint64_t flags = Fixed(archive, *at + 8, 2);
  const uint64_t method = Fixed(archive, *at + 10, 2);
  uint64_t packed = Fixed(archive, *at + 20, 4);
  uint64_t size = Fixed(archive, *at + 24, 4);
  const uint64_t name_length = Fixed(archive, *at + 28, 2);
  const uint64_t extra_length = Fixed(archive, *at + 30, 2);
  const uint64_t comment_length = Fixed(archive, *at + 32, 2);
  uint64_t offset = Fixed(archive, *at + 42, 4);
  const uint64_t rest = archive.size() - *at - kDirectoryEntryBytes;
  if (name_length + extra_length + comment_length > rest) return Broken(what, "its directory ends early");
  ZipMember member;
  member.crc = static_cast<uint32_t>(Fixed(archive, *at + 16, 4));
  member.name = archive.substr(*at + kDirectoryEntryBytes, name_length);
  MR_RETURN_IF_ERROR(ReadExtra64(archive.substr(*at + kDirectoryEntryBytes + name_length, extra_length),
                                 &size, &packed, &offset, what));
  *at += kDirectoryEntryBytes + name_length + extra_length + comment_length;
  if ((flags & kEncrypted) != 0) return errors::Unimplemented(what, ": ", member.name, " is encrypted");
  if (method != kStored && method != kDeflated)
    return errors::Unimplemented(what, ": ", member.name, " is packed by method ", method);
  member.deflated = method == kDeflated;
  member.size = size;
  if (archive.size() < kLocalHeaderBytes || offset > archive.size() - kLocalHeaderBytes ||
      Fixed(archive, offset, 4) != kLocalHeader) {
    return Broken(what, "a member is not where the directory says");
  }
  // The lengths of name and extra field may differ from those in the directory.
  const uint64_t skip = kLocalHeaderBytes + Fixed(archive, offset + 26, 2) + Fixed(archive, offset + 28, 2);
  if (skip > archive.size() - offset || packed > archive.size() - offset - skip)
    return Broken(what, "a member ends behind the end of the archive");
  member.packed = archive.substr(offset + skip, packed);
  return member;
}

}  // namespace

StatusOr<std::vector<ZipMember>> ListZip(std::string_view archive, const std::string& what) {
  MR_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(archive, what));
  std::vector<ZipMember> members;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    MR_ASSIGN_OR_RETURN(members.emplace_back(), ReadEntry(archive, &at, what));
  }
  return members;
}

StatusOr<std::string> UnpackZipMember(const ZipMember& member, const std::string& what) {
  std::string data;
  if (!member.deflated) {
    data = std::string(member.packed);
  } else {
    if (member.size / kMostOfDeflate > member.packed.size()) return Broken(what, "a size can't be right");
    z_stream z = {};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return errors::ResourceExhausted("zlib: no memory");
    char chunk[64 << 10];
    std::string_view left = member.packed;
    int result = Z_OK;
    while (result == Z_OK && data.size() <= member.size) {
      if (z.avail_in == 0) {
        const std::string_view part = left.substr(0, 1 << 30);
        left.remove_prefix(part.size());
        z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
        z.avail_in = static_cast<uInt>(part.size());
      }
      z.next_out = reinterpret_cast<Bytef*>(chunk);
      z.avail_out = sizeof(chunk);
      result = inflate(&z, Z_NO_FLUSH);
      data.append(chunk, sizeof(chunk) - z.avail_out);
    }
    inflateEnd(&z);
    if (result != Z_STREAM_END) return Broken(what, StrCat(member.name, " can't be unpacked"));
  }
  if (data.size() != member.size) return Broken(what, StrCat(member.name, " has not the size that it says"));
  uLong crc = crc32(0, nullptr, 0);
  for (std::string_view rest = data; !rest.empty();) {
    const std::string_view part = rest.substr(0, 1 << 30);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    rest.remove_prefix(part.size());
  }
  if (crc != member.crc) return Broken(what, StrCat("the checksum of ", member.name, " is wrong"));
  return data;
}

Status ZipWriter::Add(std::string_view name, std::string_view data) {
  if (count_ == 0xfffe || name.size() > 0xffff ||
      archive_.size() + directory_.size() + data.size() + 2 * name.size() + kLocalHeaderBytes +
              kDirectoryEntryBytes + kEndBytes >=
          kIn64Bits) {
    return errors::ResourceExhausted("A zip archive holds at most 4 GiB and 65,534 members");
  }
  const uLong crc = crc32(crc32(0, nullptr, 0), reinterpret_cast<const Bytef*>(data.data()),
                          static_cast<uInt>(data.size()));
  const size_t offset = archive_.size();
  std::string common;
  Append(20, 2, &common);  // version that is needed
  Append(0, 2, &common);   // flags
  Append(kStored, 2, &common);
  Append(0, 2, &common);     // midnight
  Append(0x21, 2, &common);  // 1 January 1980: the same arrays give the same bytes
  Append(crc, 4, &common);
  Append(data.size(), 4, &common);
  Append(data.size(), 4, &common);
  Append(name.size(), 2, &common);
  Append(0, 2, &common);  // extra field
  Append(kLocalHeader, 4, &archive_);
  archive_.append(common).append(name).append(data);
  Append(kDirectoryEntry, 4, &directory_);
  Append(20, 2, &directory_);  // version that made it
  directory_.append(common);
  Append(0, 2, &directory_);  // comment
  Append(0, 2, &directory_);  // part
  Append(0, 2, &directory_);  // internal attributes
  Append(0, 4, &directory_);  // external attributes
  Append(offset, 4, &directory_);
  directory_.append(name);
  ++count_;
  return Status();
}

std::string ZipWriter::Finish() && {
  const size_t offset = archive_.size();
  archive_.append(directory_);
  Append(kEndOfDirectory, 4, &archive_);
  Append(0, 2, &archive_);
  Append(0, 2, &archive_);
  Append(count_, 2, &archive_);
  Append(count_, 2, &archive_);
  Append(directory_.size(), 4, &archive_);
  Append(offset, 4, &archive_);
  Append(0, 2, &archive_);
  return std::move(archive_);
}

}  // namespace millrace::io
