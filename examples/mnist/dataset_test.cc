// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <numeric>

#include "idx_file.h"

namespace millrace::mnist {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

// An IDX file with the given header; the data counts up from `first`, each byte modulo `modulus`.
Bytes Idx(std::initializer_list<uint32_t> dims, int first = 0, int modulus = 256, uint8_t type = 8) {
  Bytes bytes = {0, 0, type, static_cast<uint8_t>(dims.size())};
  size_t elements = 1;
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(dim >> shift));
    elements *= dim;
  }
  for (size_t i = 0; i < elements; ++i)
    bytes.push_back(static_cast<uint8_t>((first + static_cast<int>(i)) % modulus));
  return bytes;
}

Bytes Gzip(const Bytes& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, plain.size()));
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Bytes Labels(uint32_t n) { return Idx({n}, 0, 10); }
Bytes Images(uint32_t n) { return Idx({n, 28, 28}); }

std::string ErrorOf(const Bytes& images, const Bytes& labels) {
  const StatusOr<Examples> examples = DecodeIdx(images, labels, "digits");
  return examples.ok() ? "no error" : examples.status().ToString();
}

// A directory of its own for one test, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "mnist_test_XXXXXX").string();
    path_ = mkdtemp(path.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

  void Write(const std::string& name, const Bytes& bytes) const {
    std::ofstream out(path_ + "/" + name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void WriteDataset(uint32_t train, uint32_t test) const {
    Write("train-images-idx3-ubyte.gz", Gzip(Images(train)));
    Write("train-labels-idx1-ubyte", Labels(train));
    Write("t10k-images-idx3-ubyte", Images(test));
    Write("t10k-labels-idx1-ubyte.gz", Gzip(Labels(test)));
  }

 private:
  std::string path_;
};

TEST(DecodeIdxTest, PixelsAreScaledAndLabelsKept) {
  const StatusOr<Examples> examples = DecodeIdx(Images(3), Labels(3), "digits");
  ASSERT_TRUE(examples.ok()) << examples.status();
  EXPECT_EQ(examples->labels, (Bytes{0, 1, 2}));
  ASSERT_EQ(examples->images.size(), 3u * kPixels);
  EXPECT_EQ(examples->images[0], 0.0f);
  EXPECT_EQ(examples->images[255], 1.0f);
  EXPECT_EQ(examples->images[784], static_cast<float>(784 % 256) / 255.0f);
}

TEST(DecodeIdxTest, GzipGivesTheSameAsPlain) {
  const StatusOr<Examples> plain = DecodeIdx(Images(20), Labels(20), "digits");
  const StatusOr<Examples> packed = DecodeIdx(Gzip(Images(20)), Gzip(Labels(20)), "digits");
  ASSERT_TRUE(plain.ok() && packed.ok()) << packed.status();
  EXPECT_EQ(plain->images, packed->images);
  EXPECT_EQ(plain->labels, packed->labels);
}

TEST(DecodeIdxTest, EachDefectHasItsOwnError) {
  EXPECT_THAT(ErrorOf({}, Labels(1)), HasSubstr("only 0 bytes, no IDX header"));
  EXPECT_THAT(ErrorOf({1, 2, 8, 3, 0}, Labels(1)), HasSubstr("not an IDX file"));
  EXPECT_THAT(ErrorOf(Idx({1, 28, 28}, 0, 256, 13), Labels(1)), HasSubstr("IDX element type 13"));
  EXPECT_THAT(ErrorOf(Idx({1, 784}), Labels(1)), HasSubstr("IDX rank 2, expected 3"));
  EXPECT_THAT(ErrorOf({0, 0, 8, 3, 0, 0}, Labels(1)), HasSubstr("header ends in the middle"));
  EXPECT_THAT(ErrorOf(Idx({1, 27, 28}), Labels(1)), HasSubstr("27 x 28 pixels, expected 28 x 28"));
  EXPECT_THAT(ErrorOf(Images(2), Labels(3)), HasSubstr("2 images but 3 labels"));
  EXPECT_THAT(ErrorOf(Images(3), Idx({3}, 8)), HasSubstr("label 10 of example 2 is not in 0 to 9"));
  EXPECT_THAT(ErrorOf(Idx({0, 28, 28}), Idx({0})), HasSubstr("no examples"));
  EXPECT_THAT(ErrorOf(Images(1), Idx({1, 1})), HasSubstr("digits (labels)"));
}

TEST(DecodeIdxTest, TruncatedAndTrailingBytesAreErrors) {
  Bytes shorter = Images(2);
  shorter.pop_back();
  EXPECT_THAT(ErrorOf(shorter, Labels(2)), HasSubstr("truncated: 1567 of 1568 elements"));
  EXPECT_THAT(ErrorOf(Gzip(shorter), Labels(2)), HasSubstr("truncated: 1567 of 1568 elements"));
  Bytes longer = Images(2);
  longer.push_back(0);
  EXPECT_THAT(ErrorOf(longer, Labels(2)), HasSubstr("bytes after the 1568 elements"));
  EXPECT_THAT(ErrorOf(Gzip(longer), Labels(2)), HasSubstr("bytes after the 1568 elements"));
  Bytes cut = Gzip(Images(2));
  cut.resize(cut.size() / 2);
  EXPECT_THAT(ErrorOf(cut, Labels(2)), HasSubstr("the gzip data ends in the middle"));
  Bytes tail = Gzip(Images(2));
  tail.push_back(7);
  EXPECT_THAT(ErrorOf(tail, Labels(2)), HasSubstr("bytes after the end of the gzip data"));
}

TEST(DecodeIdxTest, HugeClaimsAreRefusedBeforeAnyAllocation) {
  Bytes images = Images(1);
  for (int i = 4; i < 16; ++i) images[static_cast<size_t>(i)] = 0xff;
  EXPECT_THAT(ErrorOf(images, Labels(1)), HasSubstr("claim more than"));
  // Within the bound but not backed by data: the array grows only as data comes.
  Bytes labels = {0, 0, 8, 1, 0, 0x0f, 0x42, 0x40};
  EXPECT_THAT(ErrorOf(Images(1), labels), HasSubstr("truncated: 0 of 1000000 elements"));
}

TEST(DecodeIdxTest, InflatingStopsAtTheClaimedSize) {
  // 64 MiB of zeros behind a header that names one image: a bomb is noticed at the first surplus byte.
  Bytes bomb = Images(1);
  bomb.resize(size_t{64} << 20);
  EXPECT_THAT(ErrorOf(Gzip(bomb), Labels(1)), HasSubstr("bytes after the 784 elements"));
}

TEST(DecodeIdxTest, NoMutationOfAValidFileCrashes) {
  const Bytes labels = Labels(2);
  RandomStream random(7);
  int refused = 0;
  for (const Bytes& valid : {Images(2), Gzip(Images(2))}) {
    for (int round = 0; round < 3000; ++round) {
      Bytes bytes = valid;
      for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
        bytes[random.Below(std::min<size_t>(bytes.size(), 64))] = static_cast<uint8_t>(random.Next());
      }
      if (random.Below(4) == 0) bytes.resize(random.Below(bytes.size()));
      const StatusOr<Examples> examples = DecodeIdx(bytes, labels, "mutated");
      if (examples.ok()) {
        EXPECT_EQ(examples->size(), 2);
        EXPECT_EQ(examples->images.size(), 2u * kPixels);
      } else {
        ++refused;
        EXPECT_THAT(examples.status().message(), HasSubstr("mutated"));
      }
    }
  }
  EXPECT_GT(refused, 2000);
}

TEST(LoadIdxDirectoryTest, LoadsPlainAndPackedFilesMixed) {
  const TemporaryDirectory dir;
  dir.WriteDataset(12, 5);
  const StatusOr<Dataset> data = LoadIdxDirectory(dir.path());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 12);
  EXPECT_EQ(data->test.size(), 5);
  EXPECT_EQ(data->source, "MNIST in " + dir.path());
}

TEST(LoadIdxDirectoryTest, AMissingFileIsNamed) {
  const TemporaryDirectory dir;
  dir.WriteDataset(2, 2);
  std::filesystem::remove(dir.path() + "/t10k-images-idx3-ubyte");
  const StatusOr<Dataset> data = LoadIdxDirectory(dir.path());
  ASSERT_FALSE(data.ok());
  EXPECT_TRUE(errors::IsNotFound(data.status()));
  EXPECT_THAT(data.status().message(),
              HasSubstr("no file t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz"));
}

TEST(LocateTest, AnExplicitDirectoryWinsEvenWhenEmpty) {
  const TemporaryDirectory full, empty;
  full.WriteDataset(1, 1);
  EXPECT_EQ(Locate({.data_dir = empty.path(), .mnist_dir = full.path()}), empty.path());
  EXPECT_FALSE(LoadDataset({.data_dir = empty.path(), .mnist_dir = full.path()}).ok());
}

TEST(LocateTest, TheEnvironmentComesBeforeTheDefaults) {
  const TemporaryDirectory full;
  full.WriteDataset(1, 1);
  EXPECT_EQ(Locate({.data_dir = "", .mnist_dir = full.path()}), full.path());
}

TEST(LocateTest, TheDefaultFoldersAreSearchedInOrder) {
  const TemporaryDirectory root;
  const std::string before = std::filesystem::current_path().string();
  std::filesystem::create_directories(root.path() + "/project/data/mnist");
  std::filesystem::create_directories(root.path() + "/shared/data/mnist");
  std::filesystem::current_path(root.path() + "/project");
  EXPECT_EQ(Locate({}), "");
  root.Write("shared/data/mnist/train-labels-idx1-ubyte", Labels(1));
  EXPECT_EQ(Locate({}), "../shared/data/mnist");
  root.Write("project/data/mnist/train-labels-idx1-ubyte", Labels(1));
  EXPECT_EQ(Locate({}), "./data/mnist");
  EXPECT_EQ(Locate({.data_dir = kGenerated, .mnist_dir = ""}), "");
  std::filesystem::current_path(before);
}

TEST(OneHotTest, EachRowHasASingleOne) {
  std::vector<float> rows(3 * kClasses, 5.0f);
  OneHot(Bytes{9, 0, 4}, rows);
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0.0f), 3.0f);
  EXPECT_EQ(rows[9], 1.0f);
  EXPECT_EQ(rows[10], 1.0f);
  EXPECT_EQ(rows[24], 1.0f);
}

// n examples whose first pixel is their number.
Examples Numbered(int n) {
  Examples examples;
  examples.images.resize(static_cast<size_t>(n) * kPixels);
  for (int i = 0; i < n; ++i) {
    examples.images[static_cast<size_t>(i) * kPixels] = static_cast<float>(i);
    examples.labels.push_back(static_cast<uint8_t>(i % kClasses));
  }
  return examples;
}

TEST(BatcherTest, EveryExampleComesOncePerEpochEvenAcrossBatches) {
  const Examples examples = Numbered(25);
  Batcher batcher(examples, 3);
  std::vector<int> seen(25);
  std::vector<float> images(10 * kPixels), one_hot(10 * kClasses);
  for (int batch = 0; batch < 5; ++batch) {
    batcher.NextBatch(images, one_hot);
    for (size_t row = 0; row < 10; ++row) {
      const int i = static_cast<int>(images[row * kPixels]);
      ++seen[static_cast<size_t>(i)];
      EXPECT_EQ(one_hot[row * kClasses + static_cast<size_t>(i % kClasses)], 1.0f);
    }
    EXPECT_EQ(std::accumulate(one_hot.begin(), one_hot.end(), 0.0f), 10.0f);
  }
  EXPECT_EQ(seen, std::vector<int>(25, 2));
  EXPECT_EQ(batcher.epochs_started(), 2);
}

TEST(BatcherTest, TheOrderDependsOnTheSeedAndChangesEveryEpoch) {
  const Examples examples = Numbered(50);
  const auto epochs = [&](uint64_t seed) {
    Batcher batcher(examples, seed);
    std::vector<int64_t> order(100);
    for (int64_t& i : order) i = batcher.NextIndex();
    return order;
  };
  const std::vector<int64_t> first = epochs(1);
  EXPECT_EQ(first, epochs(1));
  EXPECT_NE(first, epochs(2));
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 50, first.begin() + 50));
}

}  // namespace
}  // namespace millrace::mnist
