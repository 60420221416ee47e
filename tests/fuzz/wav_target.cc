// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <vector>

#include "base/logging.h"
#include "io/sound/wav.h"
#include "tests/fuzz/fuzz_targets.h"

namespace millrace {
namespace {

[[noreturn]] void Fail(const char* what) {
  MR_LOG(Error) << "fuzzing: " << what;
  std::abort();
}

}  // namespace

void FuzzWav(std::string_view bytes) {
  PrepareFuzzing();
  const auto wav = io::ReadWav(bytes);
  if (!wav.ok()) return;
  if (wav->samples.size() != static_cast<size_t>(wav->frames * wav->channels) * 2)
    Fail("as many samples as frames and channels");
  std::vector<float> samples;
  for (int64_t i = 0; i < wav->frames * wav->channels; ++i) samples.push_back(wav->Sample(i));
  const auto written = io::WriteWav(samples, wav->channels, wav->sample_rate);
  if (!written.ok()) {
    if (!samples.empty() && wav->sample_rate > 0) Fail("what was read can be written");
    return;
  }
  const auto again = io::ReadWav(*written);
  if (!again.ok() || again->samples != wav->samples || again->sample_rate != wav->sample_rate)
    Fail("what was written reads as before");
}

}  // namespace millrace
