// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shapes of the image family and of related ops.
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(ImageShapes, FilesGiveImagesOfUnknownSize) {
  Expect(Op("DecodeJpeg"), "[]", "[?,?,?]");
  Expect(Op("DecodePng").Attr("channels", 3), "?", "[?,?,3]");
  Expect(Op("DecodeGif"), "[]", "[?,?,?,3]");
  Expect(Op("DecodeBmp").Attr("channels", -1), "[]", "e;channels must be non-negative, got -1");
  Expect(Op("DecodeJpeg"), "[2]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("EncodePng"), "[?,?,?]", "[]");
  Expect(Op("ExtractJpegShape"), "[]", "[3]");
}

TEST(ImageShapes, ResizedImagesHaveTheRequestedSize) {
  Expect(Op("ResizeBilinear"), "[2,3,4,5];[2]", "[d0_0,?,?,d0_3]");
  Expect(Op("ResizeBilinear").Const(1, {6, 7}), "[2,3,4,5];[2]", "[d0_0,6,7,d0_3]");
  Expect(Op("ResizeArea"), "[2,3,4,5];[3]", "e;must be");
  Expect(Op("ResizeBicubicGrad"), "[2,3,4,5];[2,6,7,5]", "in1");
  Expect(Op("CropAndResize"), "[2,3,4,5];[7,4];[7];[2]", "[7,?,?,d0_3]");
  Expect(Op("NonMaxSuppressionV2"), "[7,4];[7];[];[]", "[?]");
  Expect(Op("RGBToHSV"), "[2,?]", "[d0_0,3]");
}

TEST(ImageShapes, CombinedNonMaxSuppression) {
  const char* const op = "CombinedNonMaxSuppression";
  Expect(Op(op), "?;?;?;?;?;?", "[?,?,4];[?,?];[?,?];[?]");
  Expect(Op(op).ConstScalar(3, 7), "[2,5,1,4];[2,5,3];[];[];[];[]", "[d0_0,7,4];[d0_0,7];[d0_0,7];[d0_0]");
  const auto per_class = [&](int most, int total) {
    return Op(op).Attr("pad_per_class", true).ConstScalar(2, most).ConstScalar(3, total);
  };
  Expect(per_class(2, 7), "[2,5,3,4];[2,5,3];[];[];[];[]", "[d0_0,6,4];[d0_0,6];[d0_0,6];[d0_0]");
  Expect(per_class(4, 7), "[2,5,3,4];[2,5,3];[];[];[];[]", "[d0_0,7,4];[d0_0,7];[d0_0,7];[d0_0]");
  Expect(per_class(4, 7), "[2,5,1,4];[2,5,?];[];[];[];[]", "[d0_0,?,4];[d0_0,?];[d0_0,?];[d0_0]");
  Expect(Op(op), "[2,5,2,4];[2,5,3];[];[];[];[]", "e;Dimensions must be equal, but are 2 and 3");
  Expect(Op(op), "[2,5,1,5];[2,5,3];[];[];[];[]", "e;Dimension must be 4 but is 5");
  Expect(Op(op), "[2,5,1,4];[2,5,3];[1];[];[];[]", "e;Shape must be rank 0 but is rank 1");
}

TEST(ImageShapes, ScaleAndTranslate) {
  Expect(Op("ScaleAndTranslate"), "[2,3,4,5];[2];[2];[2]", "[d0_0,?,?,d0_3]");
  Expect(Op("ScaleAndTranslate").Const(1, {7, 8}), "[2,3,4,5];[2];?;?", "[d0_0,7,8,d0_3]");
  Expect(Op("ScaleAndTranslate"), "[2,3,4,5];[2];[3];[2]", "e;Dimension must be 2 but is 3");
  Expect(Op("ScaleAndTranslateGrad"), "[2,3,4,5];[2,7,8,5];[2];[2]", "in1");
}

TEST(ImageShapes, OlderAndNewerVersions) {
  Expect(Op("AdjustContrast"), "[2,3,4,?];[];[];[]", "in0");
  Expect(Op("AdjustContrast"), "[2,3,4,?];[];[1];[]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("DrawBoundingBoxesV2"), "[2,3,4,?];[2,1,4];[9,4]", "in0");
  Expect(Op("DrawBoundingBoxesV2"), "[2,3,4,?];[2,1,4];[9]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("EncodeJpegVariableQuality"), "[2,3,?];[]", "[]");
  Expect(Op("EncodeJpegVariableQuality"), "[2,3,?];[1]", "e;Shape must be rank 0 but is rank 1");
}

}  // namespace
}  // namespace millrace
