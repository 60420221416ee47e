// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/gradient_registry.h"

namespace millrace {
namespace {

// By reason, as the comments say.
constexpr const char* kOps[] = {
    // Their outputs are integers, bools or shapes.
    "All", "Any", "ApproximateEqual", "ArgMax", "ArgMin", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
    "BroadcastArgs", "BroadcastGradientArgs", "ConcatOffset", "DataFormatDimMap", "DataFormatVecPermute",
    "Equal", "Fingerprint", "Greater", "GreaterEqual", "HistogramFixedWidth", "InTopK", "InTopKV2", "Invert",
    "InvertPermutation", "IsFinite", "IsInf", "IsNan", "IsVariableInitialized", "LeftShift", "Less",
    "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "LowerBound", "NotEqual", "PopulationCount", "Rank",
    "RightShift", "Shape", "ShapeN", "Size", "TensorListElementShape", "TensorListLength", "UnravelIndex",
    "UpperBound", "VarIsInitializedOp", "VariableShape", "Where",
    // Constant between jumps.
    "Ceil", "Floor", "FloorDiv", "Rint", "Round", "Sign", "TruncateDiv",
    // They do not look at the values of their inputs, or have none.
    "Const", "Empty", "FakeParam", "ImmutableConst", "NonDeterministicInts", "OnesLike", "Placeholder",
    "PlaceholderV2", "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "EmptyTensorList",
    "StatelessRandomNormal", "StatelessRandomUniform", "StatelessRandomUniformInt",
    "StatelessTruncatedNormal", "TensorListReserve", "Timestamp", "TruncatedNormal", "VarHandleOp",
    "Variable", "VariableV2", "ZerosLike", "_Arg",
    // These ops are not differentiable by definition, as in TensorFlow.
    "AllCandidateSampler", "Bincount", "Bitcast", "ComputeAccidentalHits", "DeepCopy",
    "FixedUnigramCandidateSampler", "IgammaGradA", "InplaceAdd", "InplaceSub", "InplaceUpdate",
    "LearnedUnigramCandidateSampler", "LinSpace", "LogUniformCandidateSampler", "Multinomial", "OneHot",
    "ParallelConcat", "ParameterizedTruncatedNormal", "RandomGammaGrad", "RandomPoisson", "RandomPoissonV2",
    "RandomShuffle", "Range", "Skipgram", "StatelessMultinomial", "StopGradient", "TensorListConcatLists",
    "TensorListPushBackBatch", "ThreadUnsafeUnigramCandidateSampler", "UniformCandidateSampler",
    // They change state or transfer; gradients do not flow through that.
    "ApplyAdaMax", "ApplyAdadelta", "ApplyAdagrad", "ApplyAdagradDA", "ApplyAdagradV2", "ApplyAdam",
    "ApplyAddSign", "ApplyCenteredRMSProp", "ApplyFtrl", "ApplyFtrlV2", "ApplyGradientDescent",
    "ApplyMomentum", "ApplyPowerSign", "ApplyProximalAdagrad", "ApplyProximalGradientDescent", "ApplyRMSProp",
    "Assert", "Assign", "AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp",
    "AssignVariableOp", "CountUpTo", "DeleteSessionTensor", "DestroyResourceOp", "DestroyTemporaryVariable",
    "GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor", "NegTrain", "NoOp", "RefSelect",
    "ResourceApplyAdaMax", "ResourceApplyAdadelta", "ResourceApplyAdagrad", "ResourceApplyAdagradDA",
    "ResourceApplyAdagradV2", "ResourceApplyAdam", "ResourceApplyAdamWithAmsgrad", "ResourceApplyAddSign",
    "ResourceApplyCenteredRMSProp", "ResourceApplyFtrl", "ResourceApplyFtrlV2",
    "ResourceApplyGradientDescent", "ResourceApplyKerasMomentum", "ResourceApplyMomentum",
    "ResourceApplyPowerSign", "ResourceApplyProximalAdagrad", "ResourceApplyProximalGradientDescent",
    "ResourceApplyRMSProp", "ResourceCountUpTo", "ResourceScatterAdd", "ResourceScatterDiv",
    "ResourceScatterMax", "ResourceScatterMin", "ResourceScatterMul", "ResourceScatterNdAdd",
    "ResourceScatterNdSub", "ResourceScatterNdUpdate", "ResourceScatterSub", "ResourceScatterUpdate",
    "ResourceSparseApplyAdadelta", "ResourceSparseApplyAdagrad", "ResourceSparseApplyAdagradDA",
    "ResourceSparseApplyAdagradV2", "ResourceSparseApplyCenteredRMSProp", "ResourceSparseApplyFtrl",
    "ResourceSparseApplyFtrlV2", "ResourceSparseApplyKerasMomentum", "ResourceSparseApplyMomentum",
    "ResourceSparseApplyProximalAdagrad", "ResourceSparseApplyProximalGradientDescent",
    "ResourceSparseApplyRMSProp", "ResourceStridedSliceAssign", "RngSkip", "ScatterAdd", "ScatterDiv",
    "ScatterMax", "ScatterMin", "ScatterMul", "ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate", "ScatterSub",
    "ScatterUpdate", "SparseApplyAdadelta", "SparseApplyAdagrad", "SparseApplyAdagradDA",
    "SparseApplyAdagradV2", "SparseApplyCenteredRMSProp", "SparseApplyFtrl", "SparseApplyFtrlV2",
    "SparseApplyMomentum", "SparseApplyProximalAdagrad", "SparseApplyProximalGradientDescent",
    "SparseApplyRMSProp", "Stack", "StackClose", "StackCloseV2", "StackPop", "StackPopV2", "StackPush",
    "StackPushV2", "StackV2", "StatefulStandardNormal", "StatefulStandardNormalV2", "StatefulTruncatedNormal",
    "StatefulUniform", "StatefulUniformFullInt", "StatefulUniformInt", "StridedSliceAssign",
    "TemporaryVariable", "TensorArray", "TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3",
    "TensorArrayGrad", "TensorArrayGradV2", "TensorArrayGradWithShape", "TensorArraySize",
    "TensorArraySizeV2", "TensorArraySizeV3", "TensorArrayV2", "TensorArrayV3", "_FusedConv2D",
    "_FusedElementwise", "_FusedMatMul", "_HostRecv", "_HostSend", "_Recv", "_Retval", "_Send",
    // State between steps.
    "AccumulatorApplyGradient", "AccumulatorNumAccumulated", "AccumulatorSetGlobalStep",
    "AccumulatorTakeGradient", "Barrier", "BarrierClose", "BarrierIncompleteSize", "BarrierInsertMany",
    "BarrierReadySize", "BarrierTakeMany", "ConditionalAccumulator", "ConsumeMutexLock", "FIFOQueue",
    "FIFOQueueV2", "FakeQueue", "HashTable", "HashTableV2", "InitializeTable", "InitializeTableFromTextFile",
    "InitializeTableFromTextFileV2", "InitializeTableV2", "LookupTableExport", "LookupTableExportV2",
    "LookupTableFind", "LookupTableFindV2", "LookupTableImport", "LookupTableImportV2", "LookupTableInsert",
    "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableSize", "LookupTableSizeV2",
    "MutableDenseHashTable", "MutableDenseHashTableV2", "MutableHashTable", "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2", "MutableHashTableV2", "MutexLock", "MutexV2", "PaddingFIFOQueue",
    "PaddingFIFOQueueV2", "PriorityQueue", "PriorityQueueV2", "QueueClose", "QueueCloseV2", "QueueDequeue",
    "QueueDequeueMany", "QueueDequeueManyV2", "QueueDequeueUpTo", "QueueDequeueUpToV2", "QueueDequeueV2",
    "QueueEnqueue", "QueueEnqueueMany", "QueueEnqueueManyV2", "QueueEnqueueV2", "QueueIsClosed",
    "QueueIsClosedV2", "QueueSize", "QueueSizeV2", "RandomShuffleQueue", "RandomShuffleQueueV2",
    // Files.
    "MergeV2Checkpoints", "Restore", "RestoreSlice", "RestoreV2", "Save", "SaveSlices", "SaveV2",
    "FixedLengthRecordReader", "FixedLengthRecordReaderV2", "IdentityReader", "IdentityReaderV2",
    "MatchingFiles", "ShardedFilename", "ShardedFilespec", "ReadFile", "ReaderNumRecordsProduced",
    "ReaderNumRecordsProducedV2", "ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2",
    "ReaderRead", "ReaderReadUpTo", "ReaderReadUpToV2", "ReaderReadV2", "ReaderReset", "ReaderResetV2",
    "ReaderRestoreState", "ReaderRestoreStateV2", "ReaderSerializeState", "ReaderSerializeStateV2",
    "TFRecordReader", "TFRecordReaderV2", "TextLineReader", "TextLineReaderV2", "WholeFileReader",
    "WholeFileReaderV2", "WriteFile", "ResourceAccumulatorApplyGradient", "ResourceAccumulatorNumAccumulated",
    "ResourceAccumulatorSetGlobalStep", "ResourceAccumulatorTakeGradient", "ResourceConditionalAccumulator",
    "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient", "SparseConditionalAccumulator",
    "Stage", "MapClear", "MapIncompleteSize", "MapPeek", "MapSize", "MapStage", "MapUnstage",
    "MapUnstageNoKey", "OrderedMapClear", "OrderedMapIncompleteSize", "OrderedMapPeek", "OrderedMapSize",
    "OrderedMapStage", "OrderedMapUnstage", "OrderedMapUnstageNoKey", "StageClear", "StagePeek", "StageSize",
    "Unstage",
    // Images, as in TensorFlow.
    "CropAndResizeGradBoxes", "CropAndResizeGradImage", "DecodeAndCropJpeg", "DecodeBmp", "DecodeGif",
    "DecodeJpeg", "DecodePng", "DrawBoundingBoxes", "DrawBoundingBoxesV2", "EncodeJpeg",
    "EncodeJpegVariableQuality", "EncodePng", "ExtractGlimpse", "ExtractJpegShape", "HSVToRGB",
    "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4",
    "NonMaxSuppressionV5", "NonMaxSuppressionWithOverlaps", "RandomCrop", "SampleDistortedBoundingBox",
    "SampleDistortedBoundingBoxV2",
    // Summaries.
    "AudioSummary", "AudioSummaryV2", "HistogramSummary", "ImageSummary", "MergeSummary", "ScalarSummary",
    "TensorSummary", "TensorSummaryV2",
    // They sort values, or say where they are.
    "Bucketize", "ListDiff", "RaggedRange", "CombinedNonMaxSuppression", "CompareAndBitpack", "Unique",
    "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2",
    // As in TensorFlow; the others of sparse tensors have gradients of their values.
    "AddManySparseToTensorsMap", "AddSparseToTensorsMap", "DenseToDenseSetOperation",
    "DenseToSparseSetOperation", "DeserializeManySparse", "DeserializeSparse", "SerializeManySparse",
    "SerializeSparse", "SetSize", "SparseAddGrad", "SparseConcat", "SparseCross", "SparseReduceMax",
    "SparseReduceMaxSparse", "SparseReduceSumSparse", "SparseReshape", "SparseSliceGrad",
    "SparseToSparseSetOperation", "SparseSplit", "TakeManySparseFromTensorsMap",
    // Bytes and text: what they say does not change smoothly.
    "AsString", "Fact", "PrintV2", "StringFormat", "DecodeBase64", "DecodeCSV", "DecodeJSONExample",
    "DecodePaddedRaw", "DecodeRaw", "DecodeWav", "EncodeBase64", "EncodeWav", "ParseExample",
    "ParseExampleV2", "ParseSequenceExample", "ParseSingleExample", "ParseSingleSequenceExample",
    "ParseTensor", "ReduceJoin", "RegexFullMatch", "RegexReplace", "SerializeTensor", "DecodeCompressed",
    "GenerateVocabRemapping", "LoadAndRemapMatrix", "RecordInput", "UnsortedSegmentJoin", "UnicodeDecode",
    "UnicodeDecodeWithOffsets", "UnicodeEncode", "UnicodeScript", "UnicodeTranscode", "StaticRegexFullMatch",
    "StaticRegexReplace", "StringJoin", "StringNGrams", "StringLength", "StringLower", "StringSplit",
    "StringSplitV2", "StringStrip", "StringToHashBucket", "StringToHashBucketFast",
    "StringToHashBucketStrong", "StringToNumber", "StringUpper", "Substr",
    // No outputs, or none that carries a value.
    "Abort", "CloseSummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "ImportEvent",
    "SummaryWriter", "WriteAudioSummary", "WriteGraphSummary", "WriteHistogramSummary", "WriteImageSummary",
    "WriteRawProtoSummary", "WriteScalarSummary", "WriteSummary", "ControlTrigger", "LoopCond",
    // Datasets and what goes through them; the elements are not what they are computed from.
    // clang-format off
    "AnonymousIterator", "AnonymousIteratorV2", "AnonymousMemoryCache", "AnonymousMultiDeviceIterator",
    "AnonymousRandomSeedGenerator", "AssertNextDataset", "AutoShardDataset", "BatchDataset", "BatchDatasetV2",
    "BytesProducedStatsDataset", "CSVDataset", "CacheDataset", "CacheDatasetV2", "ChooseFastestBranchDataset",
    "ChooseFastestDataset", "ConcatenateDataset", "DatasetCardinality", "DatasetFromGraph", "DatasetToGraph",
    "DatasetToSingleElement", "DatasetToTFRecord", "DeleteIterator", "DeleteMemoryCache",
    "DeleteMultiDeviceIterator", "DeleteRandomSeedGenerator", "DenseToSparseBatchDataset",
    "DeserializeIterator", "DirectedInterleaveDataset", "ExperimentalAssertNextDataset",
    "ExperimentalAutoShardDataset", "ExperimentalBytesProducedStatsDataset", "ExperimentalCSVDataset",
    "ExperimentalChooseFastestDataset", "ExperimentalDatasetCardinality", "ExperimentalDatasetToTFRecord",
    "ExperimentalDenseToSparseBatchDataset", "ExperimentalDirectedInterleaveDataset",
    "ExperimentalGroupByReducerDataset", "ExperimentalGroupByWindowDataset",
    "ExperimentalIgnoreErrorsDataset", "ExperimentalIteratorGetDevice", "ExperimentalLMDBDataset",
    "ExperimentalLatencyStatsDataset", "ExperimentalMapAndBatchDataset", "ExperimentalMapDataset",
    "ExperimentalMatchingFilesDataset", "ExperimentalMaxIntraOpParallelismDataset",
    "ExperimentalNonSerializableDataset", "ExperimentalParallelInterleaveDataset",
    "ExperimentalParseExampleDataset", "ExperimentalPrivateThreadPoolDataset", "ExperimentalRandomDataset",
    "ExperimentalRebatchDataset", "ExperimentalScanDataset", "ExperimentalSetStatsAggregatorDataset",
    "ExperimentalSleepDataset", "ExperimentalSlidingWindowDataset", "ExperimentalSqlDataset",
    "ExperimentalStatsAggregatorHandle", "ExperimentalStatsAggregatorSummary", "ExperimentalTakeWhileDataset",
    "ExperimentalThreadPoolDataset", "ExperimentalThreadPoolHandle", "ExperimentalUnbatchDataset",
    "ExperimentalUniqueDataset", "FilterByLastComponentDataset", "FilterDataset", "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2", "FlatMapDataset", "GeneratorDataset", "GroupByReducerDataset",
    "GroupByWindowDataset", "IgnoreErrorsDataset", "InterleaveDataset", "Iterator",
    "IteratorFromStringHandle", "IteratorFromStringHandleV2", "IteratorGetDevice", "IteratorGetNext",
    "IteratorGetNextAsOptional", "IteratorGetNextSync", "IteratorToStringHandle", "IteratorV2", "LMDBDataset",
    "LatencyStatsDataset", "MakeIterator", "MapAndBatchDataset", "MapDataset", "MatchingFilesDataset",
    "MaxIntraOpParallelismDataset", "ModelDataset", "MultiDeviceIterator",
    "MultiDeviceIteratorFromStringHandle", "MultiDeviceIteratorGetNextFromShard", "MultiDeviceIteratorInit",
    "MultiDeviceIteratorToStringHandle", "NonSerializableDataset", "OneShotIterator", "OptimizeDataset",
    "OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone", "PaddedBatchDataset",
    "PaddedBatchDatasetV2", "ParallelInterleaveDataset", "ParallelInterleaveDatasetV2", "ParallelMapDataset",
    "ParseExampleDataset", "PrefetchDataset", "PrivateThreadPoolDataset", "RandomDataset", "RangeDataset",
    "RebatchDataset", "ReduceDataset", "RepeatDataset", "SamplingDataset", "ScanDataset", "SerializeIterator",
    "SetStatsAggregatorDataset", "ShardDataset", "ShuffleAndRepeatDataset", "ShuffleDataset",
    "ShuffleDatasetV2", "SkipDataset", "SleepDataset", "SlidingWindowDataset", "SnapshotDataset",
    "SparseTensorSliceDataset", "SqlDataset", "StatsAggregatorHandle", "StatsAggregatorHandleV2",
    "StatsAggregatorSetSummaryWriter", "StatsAggregatorSummary", "TFRecordDataset", "TakeDataset",
    "TakeWhileDataset", "TensorDataset", "TensorSliceDataset", "TextLineDataset", "ThreadPoolDataset",
    "ThreadPoolHandle", "UnbatchDataset", "UniqueDataset", "UnwrapDatasetVariant", "WindowDataset",
    "WrapDatasetVariant", "ZipDataset",
    // Collective operations: their gradient is a collective operation, too, which the program has to write.
    "CollectiveBcastRecv", "CollectiveBcastSend", "CollectiveGather", "CollectiveReduce",
    // clang-format on
};

}  // namespace

Status RegisterNotDifferentiableOps(GradientRegistry& registry) {
  for (const char* op : kOps) MR_RETURN_IF_ERROR(registry.RegisterNotDifferentiable(op));
  return Status();
}

}  // namespace millrace
