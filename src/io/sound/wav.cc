// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sound/wav.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::io {
namespace {

constexpr size_t kHeaderBytes = 44;

// The bytes of a file, one after the other. Beyond the end come zeros, and ok() is false.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool empty() const { return rest_.empty(); }
  std::string_view Take(size_t n) {
    if (n > rest_.size()) {
      ok_ = false;
      n = rest_.size();
    }
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  void Skip(size_t n) { rest_.remove_prefix(std::min(n, rest_.size())); }
  uint32_t Number(size_t size) {
    const std::string_view bytes = Take(size);
    uint32_t value = 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

Status TooShort() { return errors::InvalidArgument("Data too short when trying to read string"); }

Status Expect(Fields& in, std::string_view text) {
  const std::string_view found = in.Take(text.size());
  if (!in.ok()) return TooShort();
  if (found == text) return Status();
  return errors::InvalidArgument("Header mismatch: Expected ", text, " but found ", found);
}

struct Format {
  uint32_t rate = 0;
  uint32_t channels = 0;
  uint32_t frame_bytes = 0;
};

StatusOr<Format> ReadFormat(Fields& in) {
  const uint32_t size = in.Number(4);
  if (in.ok() && size != 16 && size != 18) {
    return errors::InvalidArgument("Bad format chunk size for WAV: Expected 16 or 18, but got", size);
  }
  const uint32_t coding = in.Number(2);
  if (in.ok() && coding != 1)
    return errors::InvalidArgument("Bad audio format for WAV: Expected 1 (PCM), but got", coding);
  Format f;
  f.channels = in.Number(2);
  if (in.ok() && f.channels < 1) {
    return errors::InvalidArgument("Bad number of channels for WAV: Expected at least 1, but got ",
                                   f.channels);
  }
  f.rate = in.Number(4);
  const uint32_t bytes_per_second = in.Number(4);
  f.frame_bytes = in.Number(2);
  const uint32_t bits = in.Number(2);
  if (size == 18) in.Number(2);
  if (!in.ok()) return TooShort();
  if (bits != 16) return errors::InvalidArgument("Can only read 16-bit WAV files, but received ", bits);
  if (f.frame_bytes != 2 * f.channels) {
    return errors::InvalidArgument("Bad bytes per sample in WAV header: Expected ", 2 * f.channels,
                                   " but got ", f.frame_bytes);
  }
  const uint32_t expected = f.frame_bytes * f.rate;
  if (bytes_per_second != expected) {
    return errors::InvalidArgument("Bad bytes per second in WAV header: Expected ", expected, " but got ",
                                   bytes_per_second, " (sample_rate=", f.rate,
                                   ", bytes_per_sample=", f.frame_bytes, ")");
  }
  return f;
}

void Append(std::string* out, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

StatusOr<WavView> ReadWav(std::string_view bytes) {
  constexpr uint32_t kLimit = std::numeric_limits<int32_t>::max();
  if (bytes.size() > kLimit)
    return errors::InvalidArgument("WAV contents are too large for int: ", bytes.size());
  Fields in(bytes);
  MR_RETURN_IF_ERROR(Expect(in, "RIFF"));
  in.Number(4);  // the size of the file
  MR_RETURN_IF_ERROR(Expect(in, "WAVE"));
  MR_RETURN_IF_ERROR(Expect(in, "fmt "));
  MR_ASSIGN_OR_RETURN(const Format format, ReadFormat(in));
  WavView wav{format.rate, static_cast<int>(format.channels), 0, {}};
  bool found = false;
  while (!in.empty()) {
    const std::string_view name = in.Take(4);
    const uint32_t size = in.Number(4);
    if (!in.ok()) return TooShort();
    if (size > kLimit) {
      return errors::InvalidArgument("WAV data chunk '", name, "' is too large: ", size,
                                     " bytes, but the limit is ", kLimit);
    }
    if (name != "data") {
      in.Skip(size);
      continue;
    }
    if (found) return errors::InvalidArgument("More than one data chunk found in WAV");
    found = true;
    wav.frames = size / format.frame_bytes;
    wav.samples = in.Take(static_cast<size_t>(wav.frames) * format.frame_bytes);
    if (!in.ok()) return TooShort();
  }
  if (!found) return errors::InvalidArgument("No data chunk found in WAV");
  return wav;
}

StatusOr<std::string> WriteWav(std::span<const float> samples, int64_t channels, int64_t sample_rate) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (sample_rate <= 0 || sample_rate > kMost)
    return errors::InvalidArgument("sample_rate must be in (0, 2^32), got: ", sample_rate);
  if (channels <= 0 || channels > std::numeric_limits<uint16_t>::max())
    return errors::InvalidArgument("num_channels must be in (0, 2^16), got: ", channels);
  if (samples.empty()) return errors::InvalidArgument("num_frames must be positive.");
  const size_t data = 2 * samples.size();
  if (samples.size() > kMost / 2 || data + kHeaderBytes > kMost)
    return errors::InvalidArgument("Provided channels and frames cannot be encoded as a WAV.");
  std::string out;
  out.reserve(kHeaderBytes + data);
  out += "RIFF";
  Append(&out, kHeaderBytes + data - 8, 4);
  out += "WAVEfmt ";
  Append(&out, 16, 4);
  Append(&out, 1, 2);
  Append(&out, static_cast<uint64_t>(channels), 2);
  Append(&out, static_cast<uint64_t>(sample_rate), 4);
  Append(&out, static_cast<uint64_t>(2 * channels * sample_rate), 4);
  Append(&out, static_cast<uint64_t>(2 * channels), 2);
  Append(&out, 16, 2);
  out += "data";
  Append(&out, data, 4);
  for (const float sample : samples) {
    const float clipped = std::clamp(std::round(sample * 32768.0f), -32768.0f, 32767.0f);
    const auto value = static_cast<int16_t>(std::isnan(clipped) ? 0.0f : clipped);
    Append(&out, static_cast<uint16_t>(value), 2);
  }
  return out;
}

}  // namespace millrace::io
