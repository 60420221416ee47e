# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Why bench/sweep does not measure an op."""
from __future__ import annotations

import re

from sweep_recipes import RECIPES

REMOVED = (
    "AdjustContrast Conv3DBackpropFilter Conv3DBackpropInput MatrixExponential QuantizeAndDequantize SelfAdjointEig"
    " TileGrad TopK"
)

# Ops without a meaningful limit: a pattern of names and the reason.
UNLIMITED = (
    (
        r"^(Fact|FakeParam|Empty|ImmutableConst|QuantizedReshape|(Resource)?CountUpTo)$",
        "moves no elements",
    ),
    (
        r"^(IsVariableInitialized|VarIsInitializedOp)$",
        "moves no elements",
    ),
    (
        r"SparseTo(Tensors)?Map|SparseFromTensorsMap|TensorForest|TemporaryVariable|DestroyResource",
        "state handles",
    ),
    (r"^RefSelect$", "control flow"),
    (r"^GenerateVocabRemapping$", "files and reports"),
    (r"^MapDefun$", "the function inside decides"),
    (r"^NegTrain$", "random numbers: the generator decides"),
    (r"^RaggedTensorFromVariant$", "takes a variant, which only another op makes"),
    (
        r"Dataset|Iterator|^Optional|Reader|RecordInput|MemoryCache",
        "input pipeline: the functions and files inside decide",
    ),
    (r"Queue|Stage|Unstage|Barrier|^(Ordered)?Map(Clear|Peek|Size|Inc)|Mutex|^Stack", "waits for others"),
    (
        r"Random|Stateful|Stateless|Multinomial|TruncatedNormal|RngSkip|Sampl|NonDeterministic",
        "random numbers: the generator decides",
    ),
    (r"^(Decode|Encode|Parse|Serialize|Deserialize)|ExtractJpeg", "coding: the content decides"),
    (
        r"String|Unicode|Regex|Substr|Join|AsString|Fingerprint|Skipgram|Sharded|EditDistance",
        "strings: the content decides",
    ),
    (
        r"Table|TensorArray|TensorList|Accumulator|SessionHandle|SessionTensor|Handle|BoostedTrees|Sdca",
        "state handles",
    ),
    (r"File|Save|Restore|Checkpoint|Summary|Event|Merge|^Print|Stats|LoadAndRemap", "files and reports"),
    (
        r"^_|^(Ref)?(Enter|Exit|Merge|NextIteration|Switch)$|^Loop|While|^(If|Case|For)$|Call$|Abort|NoOp|Trigger",
        "control flow",
    ),
    (
        r"^Collective|^Batch$|^Unbatch|BatchFunction|SymbolicGradient|DebugGradient|^Copy|^Debug|Timestamp|^Assert",
        "engine's own service",
    ),
    (
        r"^(Shape|ShapeN|Size|Rank|Reshape|Squeeze|ExpandDims|EnsureShape|Const|Placeholder.*|Variable.*)$",
        "moves no elements",
    ),
    (
        r"^(IdentityN?|RefIdentity|GuaranteeConst|Broadcast.*Args|ConcatOffset|VarHandleOp|ReadVariableOp)$",
        "moves no elements",
    ),
)


def reason(op: str) -> str | None:
    """Why this op is not measured; None if it should be."""
    if op in ("Identity", "Snapshot", "StopGradient", "PreventGradient", "Bitcast"):
        return "moves no elements"
    if op in REMOVED.split() or re.match(r"Batch(Cholesky|I?FFT|Matrix|SelfAdjoint|Svd|Norm)", op):
        return "removed from newer versions of graphs"
    if op in RECIPES:
        return None
    return next((text for pattern, text in UNLIMITED if re.search(pattern, op)), None)
