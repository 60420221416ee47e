// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <png.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "png_writer.h"

namespace millrace::mnist {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = google::protobuf::Value;

// Parses with protobuf's reader, which is independent of the writer.
Json Parse(const std::string& text) {
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &parsed);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << text.substr(0, 500);
  Json value;
  *value.mutable_struct_value() = parsed;
  return value;
}

const Json& At(const Json& object, const std::string& key) { return object.struct_value().fields().at(key); }
const Json& At(const Json& array, int i) { return array.list_value().values(i); }

// The embedded data of a page.
Json DataOf(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  return Parse(page.substr(from, page.find("</script>", from) - from));
}

Examples TestSet(int n) {
  Examples test;
  for (int i = 0; i < n; ++i) {
    test.labels.push_back(static_cast<uint8_t>(i % kClasses));
    for (int p = 0; p < kPixels; ++p) test.images.push_back(static_cast<float>((i + p) % 256) / 255.0f);
  }
  return test;
}

// Every third example is read as the digit after the right one.
std::vector<float> Probabilities(const Examples& test) {
  std::vector<float> rows(test.labels.size() * kClasses, 0.02f);
  for (size_t i = 0; i < test.labels.size(); ++i) {
    rows[i * kClasses + (test.labels[i] + (i % 3 == 0 ? 1 : 0)) % kClasses] = 0.82f;
  }
  return rows;
}

ReportData Sample() {
  ReportData report{
      .model = "conv", .data = "MNIST in ./data", .steps = 20, .batch = 100, .seed = 3, .threads = 2};
  report.final_accuracy = 0.5;
  report.final_loss = 1.25;
  report.seconds = 2;
  for (int step = 0; step <= 20; step += 10) {
    report.train_loss.Add(step, 2.0 / (step + 1));
    report.test_loss.Add(step, 0.25);
    report.train_accuracy.Add(step, 0.5);
    report.test_accuracy.Add(step, 0.5);
  }
  const Examples test = TestSet(30);
  AddTestPredictions(test, Probabilities(test), report);
  report.parameters.push_back(
      {.name = "w1", .shape = {784, 10}, .snapshots = {Describe(0, std::vector<float>{1, 2})}});
  report.step_times = SummarizeStepTimes({10, 20, 30});
  return report;
}

std::string Render(const ReportData& report) {
  const StatusOr<std::string> page = RenderReport(report);
  EXPECT_TRUE(page.ok()) << page.status();
  return page.ok() ? *page : "";
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ReportTest, TheEmbeddedDataParsesBackToWhatWasGiven) {
  const Json data = DataOf(Render(Sample()));
  EXPECT_EQ(At(data, "model").string_value(), "conv");
  EXPECT_EQ(At(data, "steps").number_value(), 20);
  EXPECT_EQ(At(data, "seed").string_value(), "3");
  EXPECT_EQ(At(data, "final_accuracy").number_value(), 0.5);
  EXPECT_EQ(At(At(At(data, "train_loss"), "steps"), 2).number_value(), 20);
  EXPECT_FLOAT_EQ(static_cast<float>(At(At(At(data, "train_loss"), "values"), 1).number_value()), 2.0f / 11);
  EXPECT_EQ(At(At(At(data, "confusion"), 0), 1).number_value(), 1);
  const Json& parameter = At(At(data, "parameters"), 0);
  EXPECT_EQ(At(parameter, "name").string_value(), "w1");
  EXPECT_EQ(At(At(At(parameter, "bounds"), 0), 8).number_value(), 2);
  EXPECT_EQ(At(At(data, "step_times"), "median").number_value(), 20);
  EXPECT_EQ(At(data, "digits").list_value().values_size(), 30);
}

TEST(ReportTest, NotFiniteNumbersBecomeNull) {
  ReportData report = Sample();
  report.final_loss = NAN;
  report.train_loss.Add(30, std::numeric_limits<double>::infinity());
  report.parameters[0].snapshots.push_back(Describe(30, std::vector<float>{NAN}));
  const Json data = DataOf(Render(report));
  EXPECT_EQ(At(data, "final_loss").kind_case(), Json::kNullValue);
  EXPECT_EQ(At(At(At(data, "train_loss"), "values"), 3).kind_case(), Json::kNullValue);
  EXPECT_EQ(At(At(At(At(data, "parameters"), 0), "bounds"), 1).list_value().values(4).kind_case(),
            Json::kNullValue);
}

TEST(ReportTest, HostileNamesStayText) {
  ReportData report = Sample();
  report.model = "</script><b>\"&";
  report.data = "@DATA@ \xff \x01 \xe2\x82\xac";
  const std::string page = Render(report);
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  const Json data = DataOf(page);
  EXPECT_EQ(At(data, "model").string_value(), report.model);
  EXPECT_EQ(At(data, "data").string_value(), "@DATA@ \xef\xbf\xbd \x01 \xe2\x82\xac");
}

TEST(ReportTest, ThePageLoadsNothingElse) {
  const std::string page = Render(Sample());
  // The one address is the name of the SVG namespace, which no browser fetches.
  std::string rest = page;
  const std::string svg = "\"http://www.w3.org/2000/svg\"";
  while (rest.find(svg) != std::string::npos) rest.erase(rest.find(svg), svg.size());
  EXPECT_THAT(rest, Not(HasSubstr("http")));
  EXPECT_THAT(rest, Not(HasSubstr("src=")));
  EXPECT_THAT(rest, Not(HasSubstr("<link")));
  EXPECT_THAT(rest, Not(HasSubstr("@import")));
  for (const char* place : {"@STYLE@", "@SCRIPT@", "@DATA@", "@TITLE@", "@SUMMARY@", "@SPRITE@"}) {
    EXPECT_THAT(page, Not(HasSubstr(place)));
  }
}

TEST(ReportTest, AnEmptyRunStillRenders) {
  const Json data = DataOf(Render({}));
  EXPECT_EQ(At(data, "digits").list_value().values_size(), 0);
}

TEST(ReportTest, ConfusionsCountEverythingButTheGridIsBounded) {
  const Examples test = TestSet(3000);
  ReportData report;
  AddTestPredictions(test, Probabilities(test), report);
  int64_t total = 0, right = 0;
  for (int i = 0; i < kClasses; ++i) {
    for (int k = 0; k < kClasses; ++k) total += report.confusion[i][k];
    right += report.confusion[i][i];
  }
  EXPECT_EQ(total, 3000);
  EXPECT_EQ(right, 2000);
  EXPECT_EQ(report.digits.size(), 1200u);
  EXPECT_EQ(report.digit_pixels.size(), 1200u * kPixels);
  EXPECT_EQ(report.digits[0].label, 0);
  EXPECT_EQ(report.digits[0].predicted, 1);
  EXPECT_EQ(report.digits[0].confidence, 0.82f);
  EXPECT_LT(Render(report).size(), 1'000'000u);
}

TEST(ReportTest, PixelsThatDoNotMatchTheDigitsAreRefused) {
  ReportData report = Sample();
  report.digit_pixels.pop_back();
  EXPECT_TRUE(errors::IsInvalidArgument(RenderReport(report).status()));
}

TEST(WriteReportTest, TheFileIsReplacedAndNothingIsLeftBeside) {
  const std::filesystem::path dir =
      std::filesystem::temp_directory_path() / ("report_test_" + std::to_string(getpid()));
  std::filesystem::create_directory(dir);
  const std::string path = (dir / "report.html").string();
  std::ofstream(path) << "old";
  ASSERT_TRUE(WriteReport(Sample(), path).ok());
  EXPECT_EQ(ReadFile(path), Render(Sample()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 1);

  // The path is a directory: the error names the file, and the temporary file is removed.
  const std::string blocked = (dir / "blocked").string();
  std::filesystem::create_directories(blocked + "/inside");
  const Status status = WriteReport(Sample(), blocked);
  EXPECT_THAT(status.ToString(), HasSubstr("blocked: cannot replace"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2);
  EXPECT_THAT(WriteReport(Sample(), (dir / "none/report.html").string()).ToString(),
              HasSubstr("cannot create"));
  std::filesystem::remove_all(dir);
}

TEST(Base64Test, GivesTheStandardTestVectors) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64("\xff\xfe\xfd"), "//79");
}

TEST(PngTest, TheNearestOfSixteenLevelsComesBack) {
  const std::vector<uint8_t> pixels = {0, 255, 17, 128, 8, 9};
  const StatusOr<std::string> png = EncodeGreyPng(3, 2, pixels);
  ASSERT_TRUE(png.ok()) << png.status();
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, png->data(), png->size()), 0) << image.message;
  EXPECT_EQ(image.width, 3u);
  EXPECT_EQ(image.height, 2u);
  image.format = PNG_FORMAT_GRAY;
  std::vector<uint8_t> read(6);
  ASSERT_NE(png_image_finish_read(&image, nullptr, read.data(), 0, nullptr), 0) << image.message;
  EXPECT_THAT(read, ::testing::ElementsAre(0, 255, 17, 136, 0, 17));
  EXPECT_EQ(static_cast<int>((*png)[24]), 4);  // bits a pixel
}

}  // namespace
}  // namespace millrace::mnist
