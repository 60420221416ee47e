// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace millrace {

// The functions that the fuzzers call with arbitrary bytes. Every input must end in a Status: no crash, no
// hang, no allocation beyond the limit that PrepareFuzzing sets.

// Parses a GraphDef, imports it with shape inference, exports it, and runs its last nodes once under a
// deadline.
void FuzzGraphDef(std::string_view bytes);
// Parses a TensorProto, decodes it, encodes it in both forms and compares the results.
void FuzzTensorProto(std::string_view bytes);
// Reads the whole contents of a checkpoint of either format. Byte 0: by its last three bits, the rest is
// (0) an index and (4) a table of the first format, unchanged, (1, 5) one block of one, (2, 6) one
// compressed block, (3) its entries, each with the length of its key in a byte and of its value in two, or
// (7) the text of a state. Bytes 1 and 2: its length; then the data. Checksums are corrected, except in
// forms 0 and 4.
void FuzzCheckpoint(std::string_view bytes);
// Reads TFRecord files, their indexes and event files. Byte 0, modulo 7: the rest is (0) a file, (1, 2) one
// in the format of zlib or gzip, (3, 4, 5) records for such files, each after its length in two bytes, or (6)
// an index.
void FuzzRecords(std::string_view bytes);
// Reads NumPy's files. Byte 0, modulo 3: the rest is (0) an array, (1) an archive, (2) the array of one.
void FuzzNumpy(std::string_view bytes);
// Reads a package of mapped constants: its regions, its graph, and the graph's constants in a session.
void FuzzMemmapped(std::string_view bytes);
// Extracts features from Examples and SequenceExamples. Byte 0: the last two bits are the source, the next
// one means several messages, each after its length in two bytes. Messages that protobuf parses must not be
// reported as invalid.
void FuzzExample(std::string_view bytes);
// Makes the calls of the C API that the bytes encode, with arguments of the right types and live
// objects.
void FuzzCApi(std::string_view bytes);

// Reads an image file, and writes and reads the result. The first byte has the options, except for GIFs,
// which have none. The checksums of PNG chunks are corrected unless its first byte has the highest bit.
void FuzzBmp(std::string_view bytes);
void FuzzGif(std::string_view bytes);
void FuzzJpeg(std::string_view bytes);
void FuzzPng(std::string_view bytes);
// Reads a WAV file, and writes and reads its contents again.
void FuzzWav(std::string_view bytes);
// Reads a SavedModel, text after a 't' and a message after any other byte, and imports, exports and imports
// its meta graphs.
void FuzzSavedModel(std::string_view bytes);
// Calls methods of the master and the worker service of a task, one after the other (service_calls.h). Each
// call must be answered soon after it is cancelled.
void FuzzService(std::string_view bytes);
// Bytes on the connection for calls between two tasks. Byte 0: the rest is sent (0) to the server, which must
// close the connection, or (1) to a client with two calls, which must be answered.
void FuzzCalls(std::string_view bytes);

// Once per process: registers the built-in ops and limits tensor memory.
void PrepareFuzzing();

}  // namespace millrace
