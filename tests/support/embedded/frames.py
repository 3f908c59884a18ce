"""Frames that are not quite requests, and whether or what a real broker answers."""

import struct

API_VERSIONS, METADATA = 18, 3


def header(key: int, version: int, *, flexible: bool = False, client: str | None = "c") -> bytes:
    """A request header with correlation id 7."""
    name = b"\xff\xff" if client is None else struct.pack(">h", len(client)) + client.encode()
    return struct.pack(">hhi", key, version, 7) + name + (b"\x00" if flexible else b"")


ALL_TOPICS = struct.pack(">i", -1)
CLIENT = b"\x02a\x02b\x00"
FRAMES = {
    "trailing bytes": (header(METADATA, 1) + ALL_TOPICS + b"junk", True),
    "no client id": (header(METADATA, 1, client=None) + ALL_TOPICS, True),
    "unknown api": (header(999, 0), False),
    "unknown version": (header(METADATA, 99) + b"\x00\x00", False),
    "advertised, but not spoken": (header(0, 2), False),
    "a version that is not stable": (header(2, 11, flexible=True), False),
    "short header": (b"\x00\x03", False),
    "no header": (b"\x00", False),
    "truncated array": (header(METADATA, 4) + struct.pack(">i", 5), False),
    "null array": (header(METADATA, 0) + ALL_TOPICS, False),
    "api versions": (header(API_VERSIONS, 3, flexible=True) + CLIENT, True),
    "api versions, cut": (header(API_VERSIONS, 3, flexible=True) + b"\x02", False),
    "api versions of the future, cut": (struct.pack(">hhi", API_VERSIONS, 9, 7), False),
}
"""Frames, and whether they get an answer."""
REFUSAL = bytes.fromhex("00000010 00000007 0023 00000001 0012 0000 0004")
NAMELESS = bytes.fromhex("0000000c 00000007 002a 01 00000000 00")
EXACT = {
    "a newer version": (header(API_VERSIONS, 9, flexible=True) + CLIENT, REFUSAL),
    "a negative version": (header(API_VERSIONS, -1), REFUSAL),
    "a client with no name": (header(API_VERSIONS, 3, flexible=True) + b"\x01\x01\x00", NAMELESS),
}
"""ApiVersions requests, and the whole answers of a real broker."""
