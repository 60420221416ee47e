# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Which module gen_<family>_ops the function of an op is in: the families are those of TensorFlow 1.15."""
import re

# In this order: the first pattern that matches a whole name decides.
_PATTERNS = [
    ("boosted_trees", r"(Is)?BoostedTrees.*"),
    (
        "tpu",
        r".*TPU.*|Infeed.*|Outfeed.*|CrossReplicaSum|AllToAll|CollectivePermute|RecvTPUEmbedding.*|"
        r"TPUEmbedding.*|ConfigureDistributed.*|ShutdownDistributed.*|WorkerHeartbeat",
    ),
    ("collective", r"Collective(Reduce|Gather|BcastSend|BcastRecv)"),
    ("nccl", r"_?Nccl.*"),
    ("cudnn_rnn", r"CudnnRNN.*"),
    ("rnn", r"(LSTM|GRU|Block).*(Cell|LSTM).*|BlockLSTM.*"),
    ("clustering", r"KmeansPlusPlusInitialization|KMC2ChainInitialization|NearestNeighbors"),
    ("tensor_forest", r"TensorForest.*"),
    ("ragged", r"Ragged.*"),
    ("bitwise", r"Bitwise.*|Invert|LeftShift|RightShift|PopulationCount"),
    ("batch", r"Batch|BatchFunction|Unbatch|UnbatchGrad"),
    ("audio", r"AudioSpectrogram|DecodeWav|EncodeWav|Mfcc"),
    ("sdca", r"Sdca.*"),
    ("set", r"SetSize|DenseToDenseSetOperation|DenseToSparseSetOperation|SparseToSparseSetOperation"),
    ("ctc", r"CTC.*"),
    ("manip", r"Roll"),
    ("rpc", r"Rpc|TryRpc"),
    ("script", r"PyFunc|PyFuncStateless|EagerPyFunc"),
    ("encode_proto", r"EncodeProto"),
    ("decode_proto", r"DecodeProtoV2"),
    ("no_op", r"NoOp"),
    ("user", r"Fact"),
    ("word2vec", r"NegTrain|Skipgram"),
    ("checkpoint", r"GenerateVocabRemapping|LoadAndRemapMatrix"),
    (
        "functional",
        r"SymbolicGradient|RemoteCall|_?If|_?While|StatelessIf|StatelessWhile|For|PartitionedCall|"
        r"StatefulPartitionedCall|FakeParam|_ListToArray|_ArrayToList",
    ),
    ("list", r"TensorList.*|EmptyTensorList"),
    ("lookup", r"LookupTable.*|.*HashTable.*|MutableDenseHashTable.*|InitializeTable.*"),
    ("spectral", r"I?R?FFT[23]?D?|Batch I?FFT|BatchI?FFT[23]?D?"),
    ("stateless_random", r"Stateless(Random|Truncated|Multinomial).*"),
    (
        "stateful_random",
        r"Stateful(Uniform|Standard|Truncated|RandomBinomial).*|RngSkip|NonDeterministicInts",
    ),
    ("candidate_sampling", r".*CandidateSampler|ComputeAccidentalHits"),
    ("summary", r".*SummaryWriter.*|Write.*Summary|WriteSummary|ImportEvent|SummaryWriter|CreateSummary.*"),
    ("logging", r"Assert|Print|PrintV2|Timestamp|.*Summary(V2)?|MergeSummary"),
    ("training", r"(Sparse|Resource|ResourceSparse)?Apply.*|ResourceSparseApply.*"),
    (
        "experimental_dataset",
        r"Experimental.*|AssertNextDataset|AutoShardDataset|BytesProducedStatsDataset|"
        r"ChooseFastest(Branch)?Dataset|CSVDataset|DatasetCardinality|DatasetFromGraph|"
        r"DatasetToTFRecord|DenseToSparseBatchDataset|DirectedInterleaveDataset|"
        r"GroupBy(Reducer|Window)Dataset|IgnoreErrorsDataset|IteratorGetDevice|LatencyStatsDataset|"
        r"LMDBDataset|MapAndBatchDataset|MatchingFilesDataset|MaxIntraOpParallelismDataset|"
        r"NonSerializableDataset|ParallelInterleaveDataset|ParseExampleDataset|"
        r"PrivateThreadPoolDataset|RandomDataset|RebatchDataset|SamplingDataset|ScanDataset|"
        r"SetStatsAggregatorDataset|SleepDataset|SlidingWindowDataset|SnapshotDataset|SqlDataset|"
        r"StatsAggregator.*|TakeWhileDataset|ThreadPool(Dataset|Handle)|UnbatchDataset|UniqueDataset",
    ),
    (
        "dataset",
        r".*Dataset(V2|V3)?|.*Iterator.*|Optional.*|DatasetTo.*|WrapDatasetVariant|UnwrapDatasetVariant|"
        r".*MemoryCache|.*RandomSeedGenerator|ModelDataset|OptimizeDataset|.*MultiDeviceIterator.*",
    ),
    (
        "linalg",
        r"Cholesky(Grad)?|LogMatrixDeterminant|Lu|Matrix(Determinant|Exponential|Inverse|Logarithm|Solve|"
        r"SolveLs|SquareRoot|TriangularSolve)|Qr|SelfAdjointEig(V2)?|Svd|TridiagonalSolve|TridiagonalMatMul|"
        r"Einsum|Batch(Cholesky|Matrix(Determinant|Inverse|Solve|TriangularSolve|SolveLs)|SelfAdjointEig|Svd).*",
    ),
    (
        "image",
        r".*Image.*(Grad)?|Adjust(Contrast|Hue|Saturation).*|CropAndResize.*|Decode(Bmp|Gif|Jpeg|Png|AndCropJpeg)|"
        r"DrawBoundingBoxes(V2)?|Encode(Jpeg|JpegVariableQuality|Png)|ExtractGlimpse|ExtractJpegShape|HSVToRGB|"
        r"RGBToHSV|NonMaxSuppression.*|CombinedNonMaxSuppression|Quantized?ResizeBilinear|RandomCrop|"
        r"Resize(Area|Bicubic|Bilinear|NearestNeighbor).*|SampleDistortedBoundingBox.*|ScaleAndTranslate.*|"
        r"GenerateBoundingBoxProposals",
    ),
    (
        "io",
        r".*Reader.*|MatchingFiles|MergeV2Checkpoints|ReadFile|Restore.*|Save.*|ShardedFilen.*|ShardedFilespec|"
        r"WriteFile",
    ),
    (
        "resource_variable",
        r".*VariableOp|.*VariablesOp|VarHandleOp|VariableShape|VarIsInitializedOp|"
        r"Resource(Gather|GatherNd|Scatter.*)|DestroyResourceOp|ConsumeMutexLock|MutexLock|MutexV2",
    ),
    (
        "state",
        r"Assign(Add|Sub)?|CountUpTo|DestroyTemporaryVariable|IsVariableInitialized|ResourceCountUpTo|"
        r"ResourceScatterNd.*|Scatter(Add|Div|Max|Min|Mul|Sub|Update)|ScatterNd(Add|Sub|Update|NonAliasingAdd)|"
        r"TemporaryVariable|Variable(V2)?",
    ),
    (
        "control_flow",
        r"Abort|ControlTrigger|(Ref)?(Enter|Exit|Merge|NextIteration|Switch)|LoopCond|RefSelect",
    ),
    (
        "data_flow",
        r".*Queue.*|.*Stack(V2)?|.*Barrier.*|.*Accumulator.*|TensorArray.*|DynamicPartition|DynamicStitch|"
        r"ParallelDynamicStitch|.*SessionHandle.*|GetSessionTensor|DeleteSessionTensor|(Ordered)?Map(Clear|"
        r"IncompleteSize|Peek|Size|Stage|Unstage|UnstageNoKey)|OrderedMap.*|Stage(Clear|Peek|Size)?|Unstage|"
        r"RecordInput",
    ),
    (
        "sparse",
        r"Sparse.*|AddManySparse.*|AddSparse.*|TakeManySparse.*|SerializeSparse|SerializeManySparse|"
        r"DeserializeSparse|DeserializeManySparse",
    ),
    (
        "parsing",
        r"DecodeCSV|DecodeCompressed|DecodeJSONExample|DecodePaddedRaw|DecodeRaw|Parse.*|SerializeTensor|"
        r"StringToNumber",
    ),
    (
        "string",
        r"String.*|AsString|EncodeBase64|DecodeBase64|ReduceJoin|Regex.*|StaticRegex.*|Substr|Unicode.*|"
        r"UnsortedSegmentJoin",
    ),
    ("random", r"Random.*|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial"),
    (
        "nn",
        r".*Pool.*|BiasAdd.*|Conv[23].*|.*Conv2D.*|Conv3D.*|DataFormat.*|Dilation2D.*|Elu.*|.*FusedBatchNorm.*|"
        r"Fractional.*|Fused.*|InTopK.*|L2Loss|LRN.*|LeakyRelu.*|LogSoftmax|NthElement|.*Relu.*|Selu.*|Softmax.*|"
        r"Softplus.*|Softsign.*|TopK.*|.*BatchNormWithGlobalNormalization.*|DepthwiseConv.*|Quantized(BiasAdd|Conv|"
        r"DepthwiseConv|BatchNorm|MatMulWithBias).*|_Fused.*|IsotonicRegression",
    ),
    (
        "math",
        r"Accumulate.*|Abs|Acosh?|Add.*|All|Angle|Any|ApproximateEqual|ArgM.*|Asinh?|Atan[2h]?|BatchMatMul.*|"
        r"Bessel.*|Betainc|Bincount|Bucketize|Cast|Ceil|ClipByValue|CompareAndBitpack|Complex(Abs)?|Conj|Cosh?|"
        r"Cross|Cumprod|Cumsum|Cumulative.*|Digamma|Div.*|Equal|Erfc?|EuclideanNorm|Exp|Expm1|Floor.*|Greater.*|"
        r"HistogramFixedWidth|Igamma.*|Imag|Inv(Grad)?|Is(Finite|Inf|Nan)|Less.*|Lgamma|LinSpace|Log|Log1p|"
        r"Logical.*|MatMul|Max|Maximum|Mean|Min|Minimum|Mod|Mul(NoNan)?|Ndtri|Neg|NextAfter|NotEqual|Polygamma|"
        r"Pow|Prod|Quantize(d(Add|MatMul|Mul)|DownAndShrinkRange)|QuantizedMatMul.*|Range|Real(Div)?|Reciprocal.*|"
        r"Requantiz.*|RequantizationRange.*|Rint|Round|Rsqrt.*|Segment.*|Select(V2)?|Sigmoid.*|Sign|Sinh?|Sqrt.*|"
        r"Square|SquaredDifference|Sub|Sum|Tanh?|TanhGrad|TruncateDiv|TruncateMod|UnsortedSegment(Max|Min|Prod|Sum)|"
        r"Xdivy|Xlogy|Zeta|BatchMatMul",
    ),
    ("sendrecv", r"_?(Host)?(Send|Recv)"),
]
_COMPILED = [(family, re.compile(pattern)) for family, pattern in _PATTERNS]


def family_of(op_name: str) -> str:
    """ "math" for "Add"; "array" for what no other family claims."""
    for family, pattern in _COMPILED:
        if pattern.fullmatch(op_name):
            return family
    return "array"
