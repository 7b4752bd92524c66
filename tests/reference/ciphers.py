"""AES-128 and ChaCha20 straight from their standards, to compare with: FIPS 197, and RFC 8439 section 2.2 to 2.4."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

WORD = 2**32 - 1


def times(one: int, other: int) -> int:
    """Product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    product = 0
    while other:
        product ^= one * (other & 1)
        one = (one << 1) ^ (0x11B if one & 0x80 else 0)
        other >>= 1
    return product


def substitution() -> list[int]:
    """The S-box: the inverse in GF(2^8), then an affine map of its bits."""
    inverses = [0] + [next(b for b in range(256) if times(a, b) == 1) for a in range(1, 256)]
    turned = [[(value << shift | value >> (8 - shift)) & 255 for shift in range(5)] for value in inverses]
    return [0x63 ^ a ^ b ^ c ^ d ^ e for a, b, c, d, e in turned]


BOX = substitution()


def aes_block(key: bytes, block: bytes) -> bytes:
    """One block of 16 bytes, encrypted with AES-128."""
    words = [list(key[place : place + 4]) for place in range(0, 16, 4)]
    factor = 1
    for place in range(4, 44):
        word = words[place - 1]
        if place % 4 == 0:
            word = [BOX[byte] for byte in [*word[1:], word[0]]]
            word[0] ^= factor
            factor = times(factor, 2)
        words.append([a ^ b for a, b in zip(words[place - 4], word, strict=True)])
    rounds = [[byte for word in words[place : place + 4] for byte in word] for place in range(0, 44, 4)]
    state = [a ^ b for a, b in zip(block, rounds[0], strict=True)]
    for number, own in enumerate(rounds[1:], start=1):
        state = [BOX[state[(place + 4 * (place % 4)) % 16]] for place in range(16)]
        if number < 10:
            state = [_mixed(state[start : start + 4], row) for start in range(0, 16, 4) for row in range(4)]
        state = [a ^ b for a, b in zip(state, own, strict=True)]
    return bytes(state)


def _mixed(column: list[int], row: int) -> int:
    first, second, third, fourth = column[row:] + column[:row]
    return times(first, 2) ^ times(second, 3) ^ third ^ fourth


def aes_stream(key: bytes, blocks: int, start: int = 0) -> bytes:
    """AES-128 of a counter of 16 bytes, the lowest first."""
    return b"".join(aes_block(key, (start + count).to_bytes(16, "little")) for count in range(blocks))


def chacha_stream(key: bytes, blocks: int, start: int = 0) -> bytes:
    """ChaCha20 with nonce zero."""
    return b"".join(chacha_block(key, (start + count, 0, 0, 0)) for count in range(blocks))


def chacha_block(key: bytes, last: tuple[int, int, int, int]) -> bytes:
    """One block of 64 bytes; `last`: counter and nonce, as words."""
    before = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), *last]
    after = list(before)
    for _ in range(10):
        for a, b, c, d in _quarters():
            for one, other, mixed, shift in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                after[one] = (after[one] + after[other]) & WORD
                after[mixed] ^= after[one]
                after[mixed] = (after[mixed] << shift | after[mixed] >> (32 - shift)) & WORD
    return struct.pack("<16I", *[(a + b) & WORD for a, b in zip(before, after, strict=True)])


def _quarters() -> Iterator[tuple[int, int, int, int]]:
    for column in range(4):
        yield column, 4 + column, 8 + column, 12 + column
    for column in range(4):
        yield column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4


def key_of(generator: np.random.Generator) -> bytes:
    """The key, read out of the generator's memory: the one place where it may be."""
    state = generator.bit_generator.state
    if state["bit_generator"].endswith("AESCounter"):
        return state["s"]["seed"][:2].astype("<u8").tobytes()
    return state["state"]["keysetup"].astype("<u4").tobytes()
