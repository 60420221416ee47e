# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""make_io_seeds.py DIR writes seeds of FuzzRecords, FuzzNumpy and FuzzWav, put together from the formats' definitions."""

import io
import os
import struct
import sys
import zipfile
import zlib


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def event(step, tag, value):
    entry = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(entry)]) + entry
    return b"\x09" + struct.pack("<d", 1.5e9) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary


def gzip(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def npy(descr, shape, data, fortran=False, version=1):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    prefix = b"\x93NUMPY" + bytes([version, 0])
    size = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    return prefix + size + header + b"\n" + data


def npz(compression):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr(zipfile.ZipInfo("a.npy"), npy("<f4", (2,), bytes(8)))
        archive.writestr(zipfile.ZipInfo("b.npy"), npy("|b1", (), b"\x01"), compression)
    return out.getvalue()


def wav(channels, data, format_size=16, before=b"", after=b"", size=None):
    layout = struct.pack("<HHIIHH", 1, channels, 16000, 32000 * channels % 2**32, 2 * channels % 2**16, 16)
    layout += bytes(format_size - 16)
    body = b"WAVEfmt " + struct.pack("<I", format_size) + layout + before
    body += b"data" + struct.pack("<I", len(data) if size is None else size) + data + after
    return b"RIFF" + struct.pack("<I", len(body)) + body


def main():
    version = b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"
    items = [version, event(1, b"loss", 0.5), b"", b"x" * 300]
    stream = b"".join(record(item) for item in items)
    right = b"".join(struct.pack(">H", len(item)) + item for item in items)
    lengths = b"MRRECIX1\x00" + bytes([len(stream) & 127 | 128, len(stream) >> 7]) + b"\x02\x05\x81\x01"
    records = {
        "plain": b"\x00" + stream, "zlib": b"\x01" + zlib.compress(stream), "gzip": b"\x02" + gzip(stream),
        "gzip_twice": b"\x02" + gzip(stream) + gzip(stream), "cut": b"\x00" + stream[:-7],
        "sums": b"\x03" + right, "sums_zlib": b"\x04" + right, "sums_gzip": b"\x05" + right,
        "index": b"\x06" + lengths + masked(lengths),
    }
    numpy = {
        "float": b"\x00" + npy("<f4", (2, 3), bytes(24)), "big_endian": b"\x00" + npy(">i8", (2,), bytes(16)),
        "fortran": b"\x00" + npy("<c16", (2, 2), bytes(64), True), "text": b"\x00" + npy("<U2", (2,), bytes(16)),
        "bytes": b"\x00" + npy("|S3", (2,), b"abcdef", version=2), "empty": b"\x00" + npy("<f2", (0, 7), b""),
        "stored": b"\x01" + npz(zipfile.ZIP_STORED), "deflated": b"\x01" + npz(zipfile.ZIP_DEFLATED),
        "sums": b"\x02" + npy("<u2", (3,), bytes(6)),
    }
    sound = struct.pack("<8h", 0, 32767, -32768, 1, -1, 100, -100, 7)
    wavs = {
        "mono": wav(1, sound), "stereo": wav(2, sound), "empty": wav(1, b""), "long_format": wav(2, sound, 18),
        "other_chunks": wav(1, sound, before=b"LIST" + struct.pack("<I", 3) + b"abc", after=b"tail\xff\0\0\0"),
        "many_channels": wav(65535, bytes(16)), "more_than_there_is": wav(1, sound, size=2**31 - 1),
    }
    for target, seeds in {"records": records, "numpy": numpy, "wav": wavs}.items():
        folder = os.path.join(sys.argv[1], target)
        os.makedirs(folder, exist_ok=True)
        for name, data in seeds.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()
