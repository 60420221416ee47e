# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Images in files: which format they are in, and decoding any of them."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, gen_image_ops, math_ops, string_ops
from millrace.python.ops._image_color import convert_image_dtype


def is_jpeg(contents: Any, name: Optional[str] = None) -> Any:
    """Returns whether a scalar string is an image in JPEG format."""
    with ops.name_scope(name, "is_jpeg"):
        return math_ops.equal(string_ops.substr(contents, 0, 3), b"\xff\xd8\xff", name=name)


def _is_png(contents: Any, name: Optional[str] = None) -> Any:
    with ops.name_scope(name, "is_png"):
        return math_ops.equal(string_ops.substr(contents, 0, 3), b"\x89PN", name=name)


def decode_image(
    contents: Any,
    channels: Optional[int] = None,
    dtype: Any = dtypes.uint8,
    name: Optional[str] = None,
    expand_animations: bool = True,
) -> Any:
    """Decodes an image in BMP, GIF, JPEG or PNG format.

    Args:
      contents: a scalar string.
      channels: how many the result has; None: as in the image.
      dtype: the type of the result.
      name: name scope.
      expand_animations: whether all frames of a GIF are returned, [frames, h, w, 3], or the first alone.

    Returns:
      An image [height, width, channels] (a GIF: see above) of `dtype`.

    Raises:
      ValueError: another number of channels.
    """
    with ops.name_scope(name, "decode_image"):
        if channels not in (None, 0, 1, 3, 4):
            raise ValueError("channels must be in (None, 0, 1, 3, 4)")
        substr = string_ops.substr(contents, 0, 3)
        wanted = 0 if channels is None else channels

        def only(good: Any, formats: str) -> Any:
            return control_flow_ops.Assert(good, ["Channels must be in " + formats])

        def _bmp() -> Any:
            is_bmp = math_ops.equal(string_ops.substr(contents, 0, 2), "BM", name="is_bmp")
            assert_decode = control_flow_ops.Assert(
                is_bmp, ["Unable to decode bytes as JPEG, PNG, GIF, or BMP"]
            )
            good = math_ops.not_equal(wanted, 1, name="check_channels")
            with ops.control_dependencies(
                [assert_decode, only(good, "(None, 0, 3) when decoding BMP images")]
            ):
                return convert_image_dtype(gen_image_ops.decode_bmp(contents), dtype)

        def _gif() -> Any:
            good = math_ops.logical_and(
                math_ops.not_equal(wanted, 1, name="check_gif_channels"),
                math_ops.not_equal(wanted, 4, name="check_gif_channels"),
            )
            with ops.control_dependencies([only(good, "(None, 0, 3) when decoding GIF images")]):
                result = convert_image_dtype(gen_image_ops.decode_gif(contents), dtype)
                return result if expand_animations else array_ops.gather(result, 0)

        def _png() -> Any:
            depth = dtypes.uint8 if dtype == dtypes.uint8 else dtypes.uint16
            return convert_image_dtype(gen_image_ops.decode_png(contents, wanted, dtype=depth), dtype)

        def _jpeg() -> Any:
            good = math_ops.not_equal(wanted, 4, name="check_jpeg_channels")
            with ops.control_dependencies([only(good, "(None, 0, 1, 3) when decoding JPEG images")]):
                return convert_image_dtype(gen_image_ops.decode_jpeg(contents, wanted), dtype)

        def check_gif() -> Any:
            return control_flow_ops.cond(
                math_ops.equal(substr, b"GIF", name="is_gif"), _gif, _bmp, name="cond_gif"
            )

        def check_png() -> Any:
            return control_flow_ops.cond(_is_png(contents), _png, check_gif, name="cond_png")

        return control_flow_ops.cond(is_jpeg(contents), _jpeg, check_png, name="cond_jpeg")


def encode_png(image: Any, compression: int = -1, name: Optional[str] = None) -> Any:
    """Encodes an image, uint8 or uint16 [height, width, 1 to 4 channels], as PNG."""
    return gen_image_ops.encode_png(ops.convert_to_tensor(image), compression, name)
