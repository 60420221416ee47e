# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The ops of k-means, and the names of distances and initial centers."""
from __future__ import annotations

from millrace.python.ops.gen_clustering_ops import kmc2_chain_initialization  # noqa: F401
from millrace.python.ops.gen_clustering_ops import kmeans_plus_plus_initialization  # noqa: F401
from millrace.python.ops.gen_clustering_ops import nearest_neighbors  # noqa: F401

# Distances.
SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
COSINE_DISTANCE = "cosine"

# First centers.
RANDOM_INIT = "random"
KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"
KMC2_INIT = "kmc2"

CLUSTERS_VAR_NAME = "clusters"
