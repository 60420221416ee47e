# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Boxes on images: drawing, random ones, suppression of those that overlap."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops, random_seed
from millrace.python.ops import gen_image_ops


def sample_distorted_bounding_box_v2(
    image_size: Any,
    bounding_boxes: Any,
    seed: int = 0,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: Any = None,
    use_image_if_no_bounding_boxes: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `sample_distorted_bounding_box`; with a `seed` that is not 0 the numbers are the same each time."""
    seed1, seed2 = random_seed.get_seed(seed) if seed else (0, 0)
    return _sample(
        image_size,
        bounding_boxes,
        seed1,
        seed2,
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
        name,
    )


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: Any = None,
    seed2: Any = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: Any = None,
    use_image_if_no_bounding_boxes: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns (begin [3], size [3], box [1, 1, 4]) of a random part of an image of `image_size` [h, w, c].

    The part covers at least `min_object_covered` of one of `bounding_boxes` [batch, n, 4], has a ratio of width to
    height in `aspect_ratio_range` and a part of the area in `area_range`.
    """
    return _sample(
        image_size,
        bounding_boxes,
        seed,
        seed2,
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
        name,
    )


def _sample(
    image_size: Any,
    bounding_boxes: Any,
    seed: Any,
    seed2: Any,
    min_object_covered: Any,
    aspect_ratio_range: Any,
    area_range: Any,
    max_attempts: Any,
    use_image: Any,
    name: Optional[str],
) -> Any:
    with ops.name_scope(name, "sample_distorted_bounding_box"):
        return gen_image_ops.sample_distorted_bounding_box_v2(
            image_size,
            bounding_boxes,
            seed=seed,
            seed2=seed2,
            min_object_covered=0.1 if min_object_covered is None else min_object_covered,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            use_image_if_no_bounding_boxes=use_image,
            name=name,
        )


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: Optional[str] = None,
) -> Any:
    """Returns the indices, int32 [m], of boxes in the order of their scores without those that overlap a better one.

    Args:
      boxes: float [n, 4], two opposite corners y1, x1, y2, x2 of each.
      scores: float [n].
      max_output_size: the most indices, an int32 scalar.
      iou_threshold: the largest intersection over union of two boxes that are both kept.
      score_threshold: boxes with lower scores are left out.
      name: name scope.
    """
    with ops.name_scope(name, "non_max_suppression"):
        iou_threshold = ops.convert_to_tensor(iou_threshold, name="iou_threshold")
        score_threshold = ops.convert_to_tensor(score_threshold, name="score_threshold")
        return gen_image_ops.non_max_suppression_v3(
            boxes, scores, max_output_size, iou_threshold, score_threshold
        )


def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: Optional[str] = None,
) -> Any:
    """Returns (indices, scores): as `non_max_suppression`; a sigma above 0 lowers scores instead of dropping boxes."""
    with ops.name_scope(name, "non_max_suppression_with_scores"):
        iou_threshold = ops.convert_to_tensor(iou_threshold, name="iou_threshold")
        score_threshold = ops.convert_to_tensor(score_threshold, name="score_threshold")
        soft_nms_sigma = ops.convert_to_tensor(soft_nms_sigma, name="soft_nms_sigma")
        indices, selected, _ = gen_image_ops.non_max_suppression_v5(
            boxes,
            scores,
            max_output_size,
            iou_threshold,
            score_threshold,
            soft_nms_sigma,
            pad_to_max_output_size=False,
        )
        return indices, selected


def non_max_suppression_with_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: Optional[str] = None,
) -> Any:
    """As `non_max_suppression`, by a matrix [n, n] of the overlaps of pairs of boxes."""
    with ops.name_scope(name, "non_max_suppression_overlaps"):
        overlap_threshold = ops.convert_to_tensor(overlap_threshold, name="overlap_threshold")
        return gen_image_ops.non_max_suppression_with_overlaps(
            overlaps, scores, max_output_size, overlap_threshold, score_threshold
        )


non_max_suppression_overlaps = non_max_suppression_with_overlaps


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Returns (indices, how many are valid): as `non_max_suppression`, padded with 0 on request."""
    with ops.name_scope(name, "non_max_suppression_padded"):
        iou_threshold = ops.convert_to_tensor(iou_threshold, name="iou_threshold")
        score_threshold = ops.convert_to_tensor(score_threshold, name="score_threshold")
        if pad_to_max_output_size:
            return gen_image_ops.non_max_suppression_v4(
                boxes, scores, max_output_size, iou_threshold, score_threshold, pad_to_max_output_size
            )
        return gen_image_ops.non_max_suppression_v4(
            boxes, scores, max_output_size, iou_threshold, score_threshold
        )


def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: Optional[str] = None,
) -> Any:
    """Returns (boxes, scores, classes, valid counts) of a batch, with suppression within each class.

    Args:
      boxes: float [batch, n, q, 4], q being 1 or the number of classes.
      scores: float [batch, n, classes].
      max_output_size_per_class: an int32 scalar.
      max_total_size: the most boxes of an element of the batch.
      iou_threshold: the largest intersection over union of two boxes that are both kept.
      score_threshold: boxes with lower scores are left out.
      pad_per_class: whether results have max_output_size_per_class * classes rows (at most max_total_size),
        not max_total_size.
      clip_boxes: whether boxes are cut to [0, 1].
      name: name scope.
    """
    with ops.name_scope(name, "combined_non_max_suppression"):
        iou_threshold = ops.convert_to_tensor(iou_threshold, dtype=dtypes.float32, name="iou_threshold")
        score_threshold = ops.convert_to_tensor(score_threshold, dtype=dtypes.float32, name="score_threshold")
        return gen_image_ops.combined_non_max_suppression(
            boxes,
            scores,
            max_output_size_per_class,
            max_total_size,
            iou_threshold,
            score_threshold,
            pad_per_class,
            clip_boxes,
        )


def draw_bounding_boxes(images: Any, boxes: Any, name: Optional[str] = None, colors: Any = None) -> Any:
    """Draws `boxes` [batch, n, 4] on `images`, with `colors` [m, channels], used in turn, if given."""
    return draw_bounding_boxes_v2(images, boxes, colors, name)


def draw_bounding_boxes_v2(images: Any, boxes: Any, colors: Any, name: Optional[str] = None) -> Any:
    """As `draw_bounding_boxes`."""
    if colors is None:
        return gen_image_ops.draw_bounding_boxes(images, boxes, name)
    return gen_image_ops.draw_bounding_boxes_v2(images, boxes, colors, name)


def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: Optional[str] = None,
) -> Any:
    """Returns windows of `size` [2] at `offsets` [batch, 2] of images; pixels outside are random noise."""
    return gen_image_ops.extract_glimpse(
        input=input,
        size=size,
        offsets=offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=uniform_noise,
        name=name,
    )


def extract_glimpse_v2(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    noise: str = "uniform",
    name: Optional[str] = None,
) -> Any:
    """As `extract_glimpse`; `noise` is "uniform", "gaussian" or "zero"."""
    return gen_image_ops.extract_glimpse(
        input=input, size=size, offsets=offsets, centered=centered, normalized=normalized, noise=noise,
        uniform_noise=noise == "uniform", name=name,
    )  # fmt: skip


def generate_bounding_box_proposals(
    scores: Any,
    bbox_deltas: Any,
    image_info: Any,
    anchors: Any,
    nms_threshold: Any = 0.7,
    pre_nms_topn: Any = 6000,
    min_size: Any = 16,
    post_nms_topn: Any = 300,
    name: Optional[str] = None,
) -> Any:
    """Returns (regions of interest, their probabilities) of a network that proposes regions.

    Raises:
      NotImplementedError: the engine has no op GenerateBoundingBoxProposals.
    """
    if not hasattr(gen_image_ops, "generate_bounding_box_proposals"):
        raise NotImplementedError("There is no op GenerateBoundingBoxProposals.")
    return gen_image_ops.generate_bounding_box_proposals(
        scores=scores,
        bbox_deltas=bbox_deltas,
        image_info=image_info,
        anchors=anchors,
        nms_threshold=nms_threshold,
        pre_nms_topn=pre_nms_topn,
        min_size=min_size,
        post_nms_topn=post_nms_topn,
        name=name,
    )
