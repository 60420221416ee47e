// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Readers of small formats beside the libraries that could replace them, where those are installed:
// clang-format off
//   gif/own gif/giflib       an image of 1,000 x 1,000 colours with some order; bytes: of the pixels
//   wav/own wav/sndfile      10 s of stereo, 16 bits at 44.1 kHz, to floats; bytes: of the samples
//   zip/own zip/minizip      a deflated member of 64 MiB; bytes: unpacked
//   json/own json/nlohmann   100,000 records of a text, a number and a float are written; bytes: of the text
//   hostile/gif/…            a file of 40 bytes that claims 65,535 x 65,535 pixels; peak: bytes of memory requested
// clang-format on
#include <benchmark/benchmark.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "io/image/gif.h"
#include "io/sound/wav.h"
#include "io/zip_archive.h"
#include "millrace/json_writer.h"
#if MILLRACE_HAS_GIFLIB
#include <gif_lib.h>
#endif
#if MILLRACE_HAS_SNDFILE
#include <sndfile.h>
#endif
#if MILLRACE_HAS_MINIZIP
#include <minizip/ioapi.h>
#include <minizip/unzip.h>
#endif
#if MILLRACE_HAS_NLOHMANN
#include <nlohmann/json.hpp>
#endif

namespace millrace {
namespace {

constexpr int kSide = 1000;

// LZW codes that grow, as every encoder makes them: bits least significant first, in blocks of 255 bytes.
std::string MakeGif(int side) {
  std::mt19937 random(1);
  std::vector<uint8_t> pixels;
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      pixels.push_back(static_cast<uint8_t>((x / 8 + y / 16 + (random() % 8 == 0 ? random() % 5 : 0)) & 255));
    }
  }
  std::string codes;
  uint32_t buffer = 0;
  int held = 0, bits = 9, next = 258;
  const auto put = [&](int code) {
    buffer |= static_cast<uint32_t>(code) << held;
    for (held += bits; held >= 8; held -= 8, buffer >>= 8) codes += static_cast<char>(buffer & 255);
  };
  std::vector<int16_t> children(4096 * 256, -1);
  put(256);
  int string = pixels[0];
  for (size_t i = 1; i < pixels.size(); ++i) {
    int16_t& child = children[static_cast<size_t>(string) * 256 + pixels[i]];
    if (child >= 0) {
      string = child;
      continue;
    }
    put(string);
    if (next == 4095) {
      put(256);
      std::fill(children.begin(), children.end(), int16_t{-1});
      next = 258, bits = 9;
    } else {
      child = static_cast<int16_t>(next);
      if (next++ == 1 << bits) ++bits;
    }
    string = pixels[i];
  }
  put(string);
  put(257);
  if (held > 0) codes += static_cast<char>(buffer & 255);
  const auto two = [](int v) { return std::string{static_cast<char>(v & 255), static_cast<char>(v >> 8)}; };
  std::string gif = "GIF89a" + two(side) + two(side) + std::string("\xf7\0\0", 3);
  for (int i = 0; i < 768; ++i) gif += static_cast<char>(i / 3);
  gif += "," + two(0) + two(0) + two(side) + two(side) + std::string("\0\x08", 2);
  for (size_t at = 0; at < codes.size(); at += 255) {
    const std::string block = codes.substr(at, 255);
    gif += static_cast<char>(block.size()) + block;
  }
  return gif + std::string("\0;", 2);
}

std::string HostileGif() {
  const std::string side = {static_cast<char>(46000 & 255), static_cast<char>(46000 >> 8)};
  return "GIF89a" + side + side + std::string("\x80\0\0", 3) + std::string(6, '\0') + "," +
         std::string(4, '\0') + side + side + std::string("\0\x02\x01\x05\0;", 6);
}

// The address space of the process, or its peak, in bytes.
double AddressSpace(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name, 0) == 0) return std::strtod(line.c_str() + 7, nullptr) * 1024;
  }
  return 0;
}

bool DecodeOwn(const std::string& gif, std::vector<uint8_t>* pixels) {
  return io::DecodeGif(gif,
                       [&](const io::ImageSize& size) -> StatusOr<uint8_t*> {
                         pixels->resize(static_cast<size_t>(size.pixels() * size.channels));
                         return pixels->data();
                       })
      .ok();
}

void OwnGif(benchmark::State& state) {
  static const std::string gif = MakeGif(kSide);
  std::vector<uint8_t> pixels;
  for (auto _ : state) {
    if (!DecodeOwn(gif, &pixels)) return state.SkipWithError("not decoded");
    benchmark::DoNotOptimize(pixels.data());
  }
  state.SetBytesProcessed(state.iterations() * kSide * kSide * 3);
}
BENCHMARK(OwnGif)->Name("gif/own")->Unit(benchmark::kMillisecond);

void OwnHostileGif(benchmark::State& state) {
  const std::string gif = HostileGif();
  const double before = AddressSpace("VmSize:");
  std::vector<uint8_t> pixels;
  for (auto _ : state) {
    if (DecodeOwn(gif, &pixels)) return state.SkipWithError("decoded");
  }
  state.counters["address_space"] = AddressSpace("VmPeak:") - before;
}
BENCHMARK(OwnHostileGif)->Name("hostile/gif/own");

#if MILLRACE_HAS_GIFLIB
struct GifInput {
  const std::string* bytes;
  size_t at = 0;
};

int ReadGif(GifFileType* file, GifByteType* to, int n) {
  auto* input = static_cast<GifInput*>(file->UserData);
  const size_t taken = std::min(static_cast<size_t>(n), input->bytes->size() - input->at);
  std::memcpy(to, input->bytes->data() + input->at, taken);
  input->at += taken;
  return static_cast<int>(taken);
}

// As giflib reads a whole file, and colours from its map.
bool DecodeGiflib(const std::string& gif, std::vector<uint8_t>* pixels) {
  GifInput input{&gif};
  int error = 0;
  GifFileType* file = DGifOpen(&input, ReadGif, &error);
  if (file == nullptr) return false;
  bool ok = DGifSlurp(file) == GIF_OK && file->ImageCount > 0;
  if (ok) {
    const SavedImage& image = file->SavedImages[0];
    const ColorMapObject* map =
        image.ImageDesc.ColorMap != nullptr ? image.ImageDesc.ColorMap : file->SColorMap;
    const size_t count =
        static_cast<size_t>(image.ImageDesc.Width) * static_cast<size_t>(image.ImageDesc.Height);
    ok = map != nullptr;
    if (ok) pixels->resize(3 * count);
    for (size_t i = 0; ok && i < count; ++i) {
      const int number = image.RasterBits[i];
      ok = number < map->ColorCount;
      if (ok) std::memcpy(pixels->data() + 3 * i, &map->Colors[number], 3);
    }
  }
  DGifCloseFile(file, &error);
  return ok;
}

void Giflib(benchmark::State& state) {
  static const std::string gif = MakeGif(kSide);
  std::vector<uint8_t> pixels, own;
  for (auto _ : state) {
    if (!DecodeGiflib(gif, &pixels)) return state.SkipWithError("not decoded");
    benchmark::DoNotOptimize(pixels.data());
  }
  if (!DecodeOwn(gif, &own) || own != pixels) state.SkipWithError("the two differ");
  state.SetBytesProcessed(state.iterations() * kSide * kSide * 3);
}
BENCHMARK(Giflib)->Name("gif/giflib")->Unit(benchmark::kMillisecond);

void GiflibHostile(benchmark::State& state) {
  const std::string gif = HostileGif();
  const double before = AddressSpace("VmSize:");
  std::vector<uint8_t> pixels;
  for (auto _ : state) {
    if (DecodeGiflib(gif, &pixels)) return state.SkipWithError("decoded");
  }
  state.counters["address_space"] = AddressSpace("VmPeak:") - before;
}
BENCHMARK(GiflibHostile)->Name("hostile/gif/giflib");
#endif

std::string MakeWav() {
  std::vector<float> samples;
  for (int i = 0; i < 2 * 441000; ++i) samples.push_back(static_cast<float>(i % 1000) / 1000 - 0.5f);
  return *io::WriteWav(samples, 2, 44100);
}

void OwnWav(benchmark::State& state) {
  static const std::string wav = MakeWav();
  std::vector<float> samples(2 * 441000);
  for (auto _ : state) {
    const auto view = io::ReadWav(wav);
    if (!view.ok()) return state.SkipWithError("not read");
    for (int64_t i = 0; i < view->frames * view->channels; ++i)
      samples[static_cast<size_t>(i)] = view->Sample(i);
    benchmark::DoNotOptimize(samples.data());
  }
  state.SetBytesProcessed(state.iterations() * 4 * 441000);
}
BENCHMARK(OwnWav)->Name("wav/own")->Unit(benchmark::kMicrosecond);

#if MILLRACE_HAS_SNDFILE
struct WavInput {
  const std::string* bytes;
  sf_count_t at = 0;
};

void Sndfile(benchmark::State& state) {
  static const std::string wav = MakeWav();
  std::vector<float> samples(2 * 441000);
  SF_VIRTUAL_IO io = {};
  io.get_filelen = [](void* d) { return static_cast<sf_count_t>(static_cast<WavInput*>(d)->bytes->size()); };
  io.seek = [](sf_count_t to, int whence, void* d) {
    auto* in = static_cast<WavInput*>(d);
    return in->at = to + (whence == SEEK_CUR   ? in->at
                          : whence == SEEK_END ? static_cast<sf_count_t>(in->bytes->size())
                                               : 0);
  };
  io.read = [](void* to, sf_count_t n, void* d) {
    auto* in = static_cast<WavInput*>(d);
    n = std::min(n, static_cast<sf_count_t>(in->bytes->size()) - in->at);
    std::memcpy(to, in->bytes->data() + in->at, static_cast<size_t>(n));
    in->at += n;
    return n;
  };
  io.tell = [](void* d) { return static_cast<WavInput*>(d)->at; };
  for (auto _ : state) {
    WavInput input{&wav};
    SF_INFO info = {};
    SNDFILE* file = sf_open_virtual(&io, SFM_READ, &info, &input);
    if (file == nullptr || sf_readf_float(file, samples.data(), info.frames) != 441000) {
      return state.SkipWithError("not read");
    }
    sf_close(file);
    benchmark::DoNotOptimize(samples.data());
  }
  state.SetBytesProcessed(state.iterations() * 4 * 441000);
}
BENCHMARK(Sndfile)->Name("wav/sndfile")->Unit(benchmark::kMicrosecond);
#endif

constexpr size_t kMember = size_t{64} << 20;

// One deflated member, as zip programs write it.
std::string MakeZip() {
  std::string data;
  std::mt19937 random(1);
  while (data.size() < kMember) data += std::to_string(random() % 100000) + ",";
  data.resize(kMember);
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, kMember), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(data.data());
  stream.avail_in = kMember;
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const auto number = [](uint64_t v, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += static_cast<char>(v >> 8 * i & 255);
    return out;
  };
  const uint64_t crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), kMember);
  const std::string common = number(20, 2) + number(0, 2) + number(8, 2) + number(0, 4) + number(crc, 4) +
                             number(packed.size(), 4) + number(kMember, 4) + number(1, 2) + number(0, 2);
  std::string zip = "PK\x03\x04" + common + "x" + packed;
  const size_t directory = zip.size();
  zip += "PK\x01\x02" + number(20, 2) + common + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
         number(0, 4) + "x";
  const size_t length = zip.size() - directory;
  return zip + "PK\x05\x06" + number(0, 4) + number(1, 2) + number(1, 2) + number(length, 4) +
         number(directory, 4) + number(0, 2);
}

void OwnZip(benchmark::State& state) {
  static const std::string zip = MakeZip();
  for (auto _ : state) {
    const auto members = io::ListZip(zip, "zip");
    if (!members.ok() || members->size() != 1) return state.SkipWithError("not listed");
    const auto data = io::UnpackZipMember((*members)[0], "zip");
    if (!data.ok() || data->size() != kMember) return state.SkipWithError("not unpacked");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kMember));
}
BENCHMARK(OwnZip)->Name("zip/own")->Unit(benchmark::kMillisecond);

#if MILLRACE_HAS_MINIZIP
struct ZipInput {
  const std::string* bytes;
  uint64_t at = 0;
};

void Minizip(benchmark::State& state) {
  static const std::string zip = MakeZip();
  ZipInput input{&zip};
  zlib_filefunc64_def io = {};
  io.opaque = &input;
  io.zopen64_file = [](void* d, const void*, int) { return d; };
  io.zread_file = [](void*, void* d, void* to, uLong n) {
    auto* in = static_cast<ZipInput*>(d);
    n = std::min<uLong>(n, in->bytes->size() - in->at);
    std::memcpy(to, in->bytes->data() + in->at, n);
    in->at += n;
    return n;
  };
  io.ztell64_file = [](void*, void* d) -> ZPOS64_T { return static_cast<ZipInput*>(d)->at; };
  io.zseek64_file = [](void*, void* d, ZPOS64_T to, int origin) -> long {
    auto* in = static_cast<ZipInput*>(d);
    in->at = to + (origin == 1 ? in->at : origin == 2 ? in->bytes->size() : 0);
    return in->at <= in->bytes->size() ? 0 : -1;
  };
  io.zclose_file = [](void*, void*) { return 0; };
  io.zerror_file = [](void*, void*) { return 0; };
  for (auto _ : state) {
    input.at = 0;
    unzFile file = unzOpen2_64("x", &io);
    if (file == nullptr || unzGoToFirstFile(file) != UNZ_OK || unzOpenCurrentFile(file) != UNZ_OK) {
      return state.SkipWithError("not opened");
    }
    std::string data(kMember, '\0');
    size_t done = 0;
    for (int n; done < kMember && (n = unzReadCurrentFile(file, data.data() + done, 1 << 20)) > 0;) {
      done += static_cast<size_t>(n);
    }
    if (done != kMember || unzCloseCurrentFile(file) != UNZ_OK) return state.SkipWithError("not unpacked");
    unzClose(file);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kMember));
}
BENCHMARK(Minizip)->Name("zip/minizip")->Unit(benchmark::kMillisecond);
#endif

// ---- JSON

constexpr int kRecords = 100'000;
float Share(int record) { return static_cast<float>(record) / 7; }

void OwnJson(benchmark::State& state) {
  size_t bytes = 0;
  for (auto _ : state) {
    JsonWriter json;
    json.BeginArray();
    for (int i = 0; i < kRecords; ++i) {
      json.BeginObject()
          .Field("name", "layer/weights/read")
          .Field("count", i)
          .Field("share", Share(i))
          .EndObject();
    }
    json.EndArray();
    bytes = json.text().size();
    benchmark::DoNotOptimize(json.text().data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}
BENCHMARK(OwnJson)->Name("json/own")->Unit(benchmark::kMillisecond);

#if MILLRACE_HAS_NLOHMANN
void Nlohmann(benchmark::State& state) {
  size_t bytes = 0;
  for (auto _ : state) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (int i = 0; i < kRecords; ++i)
      json.push_back({{"name", "layer/weights/read"}, {"count", i}, {"share", Share(i)}});
    const std::string text = json.dump();
    bytes = text.size();
    benchmark::DoNotOptimize(text.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}
BENCHMARK(Nlohmann)->Name("json/nlohmann")->Unit(benchmark::kMillisecond);
#endif

}  // namespace
}  // namespace millrace
