# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""What the package was built with."""

is_rocm_build = False
is_cuda_build = False
cuda_build_info: dict[str, str] = {}
build_info = {"is_cuda_build": False, "is_rocm_build": False}
