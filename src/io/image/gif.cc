// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/image/gif.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace millrace::io {
namespace {

constexpr int kChannels = 3;
constexpr int kMostCodes = 4096;
constexpr int kNoCode = -1;

// The bytes of a file, one after the other. Beyond the end come zeros, and ok() is false.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  int Byte() {
    const std::string_view one = Take(1);
    return one.empty() ? 0 : static_cast<unsigned char>(one[0]);
  }
  int Short() {
    const int low = Byte();
    return low | Byte() << 8;
  }
  std::string_view Take(size_t n) {
    if (n > rest_.size()) {
      ok_ = false;
      n = rest_.size();
    }
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

struct Frame {
  int64_t left = 0, top = 0, width = 0, height = 0;
  bool interlaced = false;
  std::string_view colors;  // three bytes each
  int least_code_bits = 0;
  std::vector<std::string_view> data;
};

// Sub-blocks up to the empty one.
void ReadBlocks(Bytes& in, std::vector<std::string_view>* blocks) {
  while (in.ok()) {
    const std::string_view block = in.Take(static_cast<size_t>(in.Byte()));
    if (block.empty()) return;
    if (blocks != nullptr) blocks->push_back(block);
  }
}

std::string_view ReadColors(Bytes& in, int flags) {
  if ((flags & 0x80) == 0) return {};
  return in.Take(size_t{kChannels} << ((flags & 7) + 1));
}

// The frames in the order of the file, up to the first invalid block.
struct File {
  std::string_view colors;
  std::vector<Frame> frames;
  const char* problem = nullptr;
};

void ReadFrame(Bytes& in, File* file) {
  Frame frame;
  frame.left = in.Short();
  frame.top = in.Short();
  frame.width = in.Short();
  frame.height = in.Short();
  const int flags = in.Byte();
  frame.interlaced = (flags & 0x40) != 0;
  frame.colors = ReadColors(in, flags);
  if ((flags & 0x80) == 0) frame.colors = file->colors;
  frame.least_code_bits = in.Byte();
  if (!in.ok()) return;
  if (frame.least_code_bits < 1 || frame.least_code_bits > 8) {
    file->problem = "Image is defective, decoding aborted";
    return;
  }
  ReadBlocks(in, &frame.data);
  file->frames.push_back(std::move(frame));
}

File ReadFile(std::string_view bytes) {
  File file;
  Bytes in(bytes);
  const std::string_view stamp = in.Take(6);
  if (stamp != "GIF87a" && stamp != "GIF89a") {
    file.problem = "Data is not in GIF format";
    return file;
  }
  in.Take(4);  // the size of the screen
  const int flags = in.Byte();
  in.Take(2);  // background and aspect ratio
  file.colors = ReadColors(in, flags);
  while (in.ok() && file.problem == nullptr) {
    switch (in.Byte()) {
      case 0x2c:
        ReadFrame(in, &file);
        break;
      case 0x21:
        in.Byte();
        ReadBlocks(in, nullptr);
        break;
      case 0x3b:
        return file;
      default:
        if (in.ok()) file.problem = "Wrong record type detected";
        break;
    }
  }
  if (file.problem == nullptr) file.problem = "Failed to read from given file";
  return file;
}

// The codes of a frame: least_code_bits + 1 bits wide at first, least significant bit first.
class Codes {
 public:
  explicit Codes(const std::vector<std::string_view>& data) : data_(data) {}
  int Next(int bits) {
    while (held_ < bits) {
      if (block_ == data_.size()) return kNoCode;
      buffer_ |= static_cast<uint32_t>(static_cast<unsigned char>(data_[block_][at_])) << held_;
      held_ += 8;
      if (++at_ == data_[block_].size()) {
        at_ = 0;
        ++block_;
      }
    }
    const int code = static_cast<int>(buffer_ & ((1U << bits) - 1));
    buffer_ >>= bits;
    held_ -= bits;
    return code;
  }

 private:
  const std::vector<std::string_view>& data_;
  size_t block_ = 0, at_ = 0;
  uint32_t buffer_ = 0;
  int held_ = 0;
};

// LZW: fills `out` with the numbers of colours, in the order of the file. Missing pixels are 0.
class Unpacker {
 public:
  void Unpack(const Frame& frame, std::vector<uint8_t>* out) {
    Codes codes(frame.data);
    const int clear = 1 << frame.least_code_bits, end = clear + 1;
    for (int i = 0; i < clear; ++i) suffix_[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
    size_t done = 0;
    int next = end + 1, bits = frame.least_code_bits + 1, last = kNoCode;
    uint8_t first = 0;
    while (done < out->size()) {
      const int code = codes.Next(bits);
      if (code == kNoCode || code == end) return;
      if (code == clear) {
        next = end + 1;
        bits = frame.least_code_bits + 1;
        last = kNoCode;
        continue;
      }
      if (code > next || (code == next && last == kNoCode)) return;
      if (last == kNoCode && code >= clear) return;
      // A code that is being defined is the last string followed by its first colour.
      size_t n = 0;
      int walk = code;
      if (code == next) {
        stack_[n++] = first;
        walk = last;
      }
      for (; walk > end; walk = prefix_[static_cast<size_t>(walk)])
        stack_[n++] = suffix_[static_cast<size_t>(walk)];
      first = suffix_[static_cast<size_t>(walk)];
      stack_[n++] = first;
      if (last != kNoCode && next < kMostCodes) {
        prefix_[static_cast<size_t>(next)] = static_cast<int16_t>(last);
        suffix_[static_cast<size_t>(next)] = first;
        if (++next == 1 << bits && bits < 12) ++bits;
      }
      while (n > 0 && done < out->size()) (*out)[done++] = stack_[--n];
      last = code;
    }
  }

 private:
  std::array<int16_t, kMostCodes> prefix_{};
  std::array<uint8_t, kMostCodes> suffix_{};
  std::array<uint8_t, kMostCodes + 1> stack_{};
};

// Which row of the frame the k-th row of an interlaced file is: every 8th, those between, and so on.
int64_t InterlacedRow(int64_t k, int64_t height) {
  static constexpr struct { int64_t first, step; } kPasses[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  for (const auto& pass : kPasses) {
    const int64_t rows = pass.first >= height ? 0 : (height - pass.first + pass.step - 1) / pass.step;
    if (k < rows) return pass.first + k * pass.step;
    k -= rows;
  }
  return height - 1;
}

Status Draw(const Frame& frame, const std::vector<uint8_t>& numbers, const ImageSize& size, uint8_t* image) {
  const auto known = static_cast<int>(frame.colors.size()) / kChannels;
  const int64_t columns = std::min(frame.width, size.width - frame.left);
  if (columns <= 0) return Status();
  for (int64_t k = 0; k < frame.height; ++k) {
    const int64_t row = frame.top + (frame.interlaced ? InterlacedRow(k, frame.height) : k);
    if (row >= size.height) continue;
    uint8_t* to = image + (row * size.width + frame.left) * kChannels;
    for (int64_t x = 0; x < columns; ++x, to += kChannels) {
      const int number = numbers[static_cast<size_t>(k * frame.width + x)];
      if (number >= known) {
        return errors::InvalidArgument("found color index ", number, " outside of color map range ", known);
      }
      std::memcpy(to, frame.colors.data() + number * kChannels, kChannels);
    }
  }
  return Status();
}

}  // namespace

Status DecodeGif(std::string_view bytes, const PixelAllocator& allocate) {
  const File file = ReadFile(bytes);
  if (file.frames.empty()) {
    if (file.problem != nullptr) return errors::InvalidArgument("failed to slurp gif file: ", file.problem);
    return errors::InvalidArgument("gif file does not contain any image");
  }
  ImageSize size{.frames = static_cast<int64_t>(file.frames.size()), .channels = kChannels};
  for (const Frame& frame : file.frames) {
    size.height = std::max(size.height, frame.height);
    size.width = std::max(size.width, frame.width);
  }
  MR_RETURN_IF_ERROR(CheckPlausible(size, 1, bytes.size(), kDensestGif));
  const Frame& first = file.frames[0];
  if (first.left != 0 || first.top != 0 || first.width != size.width || first.height != size.height)
    return errors::InvalidArgument("the first frame does not fill the canvas");
  for (size_t k = 0; k < file.frames.size(); ++k) {
    if (file.frames[k].colors.empty()) return errors::InvalidArgument("missing color map for frame ", k);
  }
  MR_ASSIGN_OR_RETURN(uint8_t* const images, allocate(size));
  const auto image_bytes = static_cast<size_t>(size.height * size.width * kChannels);
  std::vector<uint8_t> numbers;
  Unpacker unpacker;
  for (size_t k = 0; k < file.frames.size(); ++k) {
    const Frame& frame = file.frames[k];
    uint8_t* const image = images + k * image_bytes;
    if (k > 0) std::memcpy(image, image - image_bytes, image_bytes);
    numbers.assign(static_cast<size_t>(frame.width * frame.height), 0);
    unpacker.Unpack(frame, &numbers);
    MR_RETURN_IF_ERROR(Draw(frame, numbers, size, image));
  }
  return Status();
}

}  // namespace millrace::io
