// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Image files, and operations on images other than convolution and pooling.
#include "ops/family.h"
#include "ops/image/shapes.h"

namespace millrace::ops {
namespace {

constexpr char kScalable[] = "T: {int8, uint8, int16, uint16, int32, int64, half, float, double}";
constexpr char kCroppable[] = "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}";
constexpr char kHalfOrFloat[] = "T: {half, float} = DT_FLOAT";
constexpr char kThreshold[] = "T_threshold: {half, float} = DT_FLOAT";

OpBuilder WithJpegAttrs(OpBuilder op) {
  return op.Output("image: uint8")
      .Attr("channels: int = 0")
      .Attr("ratio: int = 1")
      .Attr("fancy_upscaling: bool = true")
      .Attr("try_recover_truncated: bool = false")
      .Attr("acceptable_fraction: float = 1")
      .Attr("dct_method: string = ''");
}

std::vector<OpBuilder> Readers() {
  return {
      WithJpegAttrs(
          OpBuilder("DecodeJpeg: The pixels of a JPEG file.").Input("contents: string").NotDifferentiable())
          .Shape(DecodeImageShape),
      WithJpegAttrs(OpBuilder("DecodeAndCropJpeg: A part of the pixels of a JPEG file.")
                        .Input("contents: string")
                        .Input("crop_window: int32")
                        .NotDifferentiable())
          .Shape(DecodeAndCropShape),
      OpBuilder("DecodePng: The pixels of a PNG file.")
          .Input("contents: string")
          .Output("image: dtype")
          .Attr("channels: int = 0")
          .Attr("dtype: {uint8, uint16} = DT_UINT8")
          .Shape(DecodeImageShape)
          .NotDifferentiable(),
      OpBuilder("DecodeGif: The frames of a GIF file.")
          .Input("contents: string")
          .Output("image: uint8")
          .Shape(DecodeGifShape)
          .NotDifferentiable(),
      OpBuilder("DecodeBmp: The pixels of a BMP file.")
          .Input("contents: string")
          .Output("image: uint8")
          .Attr("channels: int = 0")
          .Shape(DecodeImageShape)
          .NotDifferentiable(),
      OpBuilder("ExtractJpegShape: The shape of a JPEG image, from its header.")
          .Input("contents: string")
          .Output("image_shape: output_type")
          .Attr("output_type: {int32, int64} = DT_INT32")
          .Shape(JpegShapeShape)
          .NotDifferentiable(),
  };
}

std::vector<OpBuilder> Writers() {
  return {
      OpBuilder("EncodeJpegVariableQuality: Pixels as a JPEG file of a quality from 0 to 100.")
          .NotDifferentiable()
          .Input("images: uint8")
          .Input("quality: int32")
          .Output("contents: string")
          .Shape(EncodeWithQualityShape),
      OpBuilder("EncodeJpeg: Pixels as a JPEG file.")
          .Input("image: uint8")
          .Output("contents: string")
          .Attr("format: {'', 'grayscale', 'rgb'} = ''")
          .Attr("quality: int = 95")
          .Attr("progressive: bool = false")
          .Attr("optimize_size: bool = false")
          .Attr("chroma_downsampling: bool = true")
          .Attr("density_unit: {'in', 'cm'} = 'in'")
          .Attr("x_density: int = 300")
          .Attr("y_density: int = 300")
          .Attr("xmp_metadata: string = ''")
          .Shape(EncodeImageShape)
          .NotDifferentiable(),
      OpBuilder("EncodePng: Pixels as a PNG file.")
          .Input("image: T")
          .Output("contents: string")
          .Attr("compression: int = -1")
          .Attr("T: {uint8, uint16} = DT_UINT8")
          .Shape(EncodeImageShape)
          .NotDifferentiable(),
  };
}

OpBuilder Resize(const char* name, const char* types, const char* output) {
  return OpBuilder(name)
      .Input("images: T")
      .Input("size: int32")
      .Output(output)
      .Attr(types)
      .Attr("align_corners: bool = false")
      .Shape(ResizeShape);
}

OpBuilder ResizeGradient(const char* name, const char* grads, const char* second, const char* types) {
  return OpBuilder(name)
      .Input(grads)
      .Input(second)
      .Output("output: T")
      .Attr(types)
      .Attr("align_corners: bool = false")
      .Attr("half_pixel_centers: bool = false");
}

std::vector<OpBuilder> Resizers() {
  constexpr char kHalfPixel[] = "half_pixel_centers: bool = false";
  return {
      Resize("ResizeArea: Resizes images by averaging areas.", kScalable, "resized_images: float"),
      Resize("ResizeBicubic: Resizes images by bicubic interpolation.", kScalable, "resized_images: float")
          .Attr(kHalfPixel),
      OpBuilder("ScaleAndTranslate: Scales and translates images, with a resampling kernel.")
          .Input("images: T")
          .Input("size: int32")
          .Input("scale: float")
          .Input("translation: float")
          .Output("resized_images: float")
          .Attr("T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}")
          .Attr("kernel_type: string = 'lanczos3'")
          .Attr("antialias: bool = true")
          .Shape(ScaleAndTranslateShape),
      OpBuilder("ScaleAndTranslateGrad: The gradient of ScaleAndTranslate.")
          .Input("grads: T")
          .Input("original_image: T")
          .Input("scale: float")
          .Input("translation: float")
          .Output("output: T")
          .Attr("T: {float}")
          .Attr("kernel_type: string = 'lanczos3'")
          .Attr("antialias: bool = true")
          .Shape(ResizeGradientShape),
      ResizeGradient("ResizeBicubicGrad: The gradient of ResizeBicubic.", "grads: float", "original_image: T",
                     "T: {float, double}")
          .Shape(ResizeGradientShape),
      Resize("ResizeBilinear: Resizes images by bilinear interpolation.",
             "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
             "resized_images: float")
          .Attr(kHalfPixel),
      ResizeGradient("ResizeBilinearGrad: The gradient of ResizeBilinear.", "grads: float",
                     "original_image: T", "T: {float, bfloat16, half, double}")
          .Shape(ResizeGradientShape),
      Resize("ResizeNearestNeighbor: Resizes images by the nearest pixel.", kScalable, "resized_images: T")
          .Attr(kHalfPixel),
      ResizeGradient("ResizeNearestNeighborGrad: The gradient of ResizeNearestNeighbor.", "grads: T",
                     "size: int32", "T: {uint8, int8, int32, half, float, double}")
          .Shape(ResizeShape),
  };
}

std::vector<OpBuilder> Croppers() {
  return {
      OpBuilder("CropAndResize: Crops boxes from images and resizes them to one size.")
          .Input("image: T")
          .Input("boxes: float")
          .Input("box_ind: int32")
          .Input("crop_size: int32")
          .Output("crops: float")
          .Attr(kCroppable)
          .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
          .Attr("extrapolation_value: float = 0")
          .Shape(CropAndResizeShape),
      OpBuilder("CropAndResizeGradBoxes: The gradient of CropAndResize with respect to the boxes.")
          .Input("grads: float")
          .Input("image: T")
          .Input("boxes: float")
          .Input("box_ind: int32")
          .Output("output: float")
          .Attr(kCroppable)
          .Attr("method: {'bilinear'} = 'bilinear'")
          .Shape(CropGradBoxesShape)
          .NotDifferentiable(),
      OpBuilder("CropAndResizeGradImage: The gradient of CropAndResize with respect to the images.")
          .Input("grads: float")
          .Input("boxes: float")
          .Input("box_ind: int32")
          .Input("image_size: int32")
          .Output("output: T")
          .Attr("T: {float, half, double}")
          .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
          .Shape(CropGradImageShape)
          .NotDifferentiable(),
      OpBuilder("ExtractGlimpse: Windows of images around given points.")
          .Input("input: float")
          .Input("size: int32")
          .Input("offsets: float")
          .Output("glimpse: float")
          .Attr("centered: bool = true")
          .Attr("normalized: bool = true")
          .Attr("uniform_noise: bool = true")
          .Attr("noise: string = 'uniform'")
          .Shape(ExtractGlimpseShape)
          .NotDifferentiable(),
      OpBuilder("RandomCrop: A random crop of an image.")
          .Input("image: T")
          .Input("size: int64")
          .Output("output: T")
          .Attr("T: {uint8, int8, int16, int32, int64, float, double}")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Stateful()
          .Deprecated(8, "Random crop is now pure Python")
          .Shape(RandomCropShape)
          .NotDifferentiable(),
  };
}

OpBuilder WithBoxAttrs(OpBuilder op) {
  return op.Attr("aspect_ratio_range: list(float) = [0.75, 1.33]")
      .Attr("area_range: list(float) = [0.05, 1]")
      .Attr("max_attempts: int = 100")
      .Attr("use_image_if_no_bounding_boxes: bool = false")
      .Stateful()
      .Shape(SampleBoxShape);
}

OpBuilder SampleBox(const char* name) {
  return OpBuilder(name)
      .Input("image_size: T")
      .Input("bounding_boxes: float")
      .Output("begin: T")
      .Output("size: T")
      .Output("bboxes: float")
      .Attr("T: {uint8, int8, int16, int32, int64}")
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0");
}

// Boxes and scores are of type T, or float.
OpBuilder Suppression(const char* name, bool typed) {
  OpBuilder op(name);
  op.Input(typed ? "boxes: T" : "boxes: float").Input(typed ? "scores: T" : "scores: float");
  return op.Input("max_output_size: int32").Output("selected_indices: int32").Shape(SuppressionShape);
}

std::vector<OpBuilder> Boxes() {
  return {
      OpBuilder("DrawBoundingBoxes: Images with boxes drawn on them.")
          .Input("images: T")
          .Input("boxes: float")
          .Output("output: T")
          .Attr("T: {float, half} = DT_FLOAT")
          .Shape(UnchangedImagesShape)
          .NotDifferentiable(),
      OpBuilder("DrawBoundingBoxesV2: Images with boxes drawn on them in given colours.")
          .Input("images: T")
          .Input("boxes: float")
          .Input("colors: float")
          .Output("output: T")
          .Attr("T: {float, half} = DT_FLOAT")
          .Shape(DrawBoxesV2Shape)
          .NotDifferentiable(),
      WithBoxAttrs(SampleBox("SampleDistortedBoundingBox: A random box that covers enough of the given ones.")
                       .Attr("min_object_covered: float = 0.1")
                       .NotDifferentiable()),
      WithBoxAttrs(
          SampleBox("SampleDistortedBoundingBoxV2: A random box that covers enough of the given ones.")
              .Input("min_object_covered: float")
              .NotDifferentiable()),
      Suppression("NonMaxSuppression: Selects boxes by score, dropping those that overlap a better one.",
                  false)
          .Attr("iou_threshold: float = 0.5")
          .NotDifferentiable(),
      Suppression("NonMaxSuppressionV2: Selects boxes by score, dropping those that overlap a better one.",
                  true)
          .Input("iou_threshold: T_threshold")
          .Attr(kHalfOrFloat)
          .Attr(kThreshold)
          .NotDifferentiable(),
      Suppression("NonMaxSuppressionV3: Selects boxes by score, dropping those that overlap a better one.",
                  true)
          .Input("iou_threshold: T_threshold")
          .Input("score_threshold: T_threshold")
          .Attr(kHalfOrFloat)
          .Attr(kThreshold)
          .NotDifferentiable(),
      Suppression("NonMaxSuppressionV4: Selects boxes by score, dropping those that overlap a better one.",
                  true)
          .Input("iou_threshold: T_threshold")
          .Input("score_threshold: T_threshold")
          .Output("valid_outputs: int32")
          .Attr(kHalfOrFloat)
          .Attr(kThreshold)
          .Attr("pad_to_max_output_size: bool = false")
          .NotDifferentiable(),
      Suppression("NonMaxSuppressionV5: Selects boxes by score, dropping those that overlap a better one.",
                  true)
          .Input("iou_threshold: T")
          .Input("score_threshold: T")
          .Input("soft_nms_sigma: T")
          .Output("selected_scores: T")
          .Output("valid_outputs: int32")
          .Attr(kHalfOrFloat)
          .Attr("pad_to_max_output_size: bool = false")
          .NotDifferentiable(),
      OpBuilder("CombinedNonMaxSuppression: Selects boxes by score for each image of a batch and each class, "
                "dropping those that overlap a better one.")
          .Input("boxes: float")
          .Input("scores: float")
          .Input("max_output_size_per_class: int32")
          .Input("max_total_size: int32")
          .Input("iou_threshold: float")
          .Input("score_threshold: float")
          .Output("nmsed_boxes: float")
          .Output("nmsed_scores: float")
          .Output("nmsed_classes: float")
          .Output("valid_detections: int32")
          .Attr("pad_per_class: bool = false")
          .Attr("clip_boxes: bool = true")
          .Shape(CombinedSuppressionShape)
          .NotDifferentiable(),
      OpBuilder("NonMaxSuppressionWithOverlaps: Selects boxes by score, with given overlaps.")
          .Input("overlaps: float")
          .Input("scores: float")
          .Input("max_output_size: int32")
          .Input("overlap_threshold: float")
          .Input("score_threshold: float")
          .Output("selected_indices: int32")
          .Shape(SuppressionWithOverlapsShape)
          .NotDifferentiable(),
  };
}

OpBuilder Adjustment(const char* name, const char* amount) {
  return OpBuilder(name)
      .Input("images: T")
      .Input(amount)
      .Output("output: T")
      .Attr(kHalfOrFloat)
      .Shape(AdjustmentShape);
}

OpBuilder ColorSpace(const char* name) {
  return OpBuilder(name)
      .Input("images: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
      .Shape(ColorSpaceShape);
}

std::vector<OpBuilder> Colors() {
  return {
      Adjustment("AdjustContrastv2: Scales the distance of each channel of images from its mean.",
                 "contrast_factor: float"),
      OpBuilder("AdjustContrast: Scales the distance of each channel of images from its mean, and clips the "
                "result.")
          .Input("images: T")
          .Input("contrast_factor: float")
          .Input("min_value: float")
          .Input("max_value: float")
          .Output("output: float")
          .Attr("T: {uint8, int8, int16, int32, int64, float, double}")
          .Deprecated(2, "Use AdjustContrastv2 instead")
          .Shape(AdjustmentShape),
      Adjustment("AdjustHue: Shifts the hue of RGB images by a fraction of the circle.", "delta: float"),
      Adjustment("AdjustSaturation: Scales the saturation of RGB images.", "scale: float"),
      ColorSpace("HSVToRGB: Converts colours from HSV to RGB.").NotDifferentiable(),
      ColorSpace("RGBToHSV: Converts colours from RGB to HSV."),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterImageOps(OpRegistry& registry) {
  for (const auto part : {ops::Readers, ops::Writers, ops::Resizers, ops::Croppers, ops::Boxes, ops::Colors})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  return Status::Ok();
}

}  // namespace millrace
