"""Random generators that nobody can repeat: the stream of a cipher under a key from the operating system.

Guarantee: whoever does not read this process's memory can neither foresee nor recompute what a generator draws, nor
tell it from true randomness, as far as the cipher holds. Each generator has keys of its own, so what one draws says
nothing about another. The keys exist in the generator only: they are never returned, stored, sent or logged.

| processor | stream | key |
|---|---|---|
| with AES instructions | AES-128 in counter mode (FIPS 197, NIST SP 800-38A) | 128 bits |
| any other | ChaCha20 (RFC 8439): AES without them is slow, and its timing tells of its key | 256 bits |

Both come from randomgen, as bit generators of NumPy. Where it is AES, noise takes its many words from OpenSSL's AES-128
in counter mode under a second key, in half the time. A build that did not compute its cipher would be a catastrophe
that nobody notices, so a cipher has to answer a published example before it is given a key.
A machine that is copied while it runs (snapshot of a virtual machine, fork) draws the same numbers twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher as OpenSSL
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray
from randomgen import AESCounter, ChaCha

from common.errors import PrivacyError


@dataclass(frozen=True)
class Cipher:
    """A cipher as a source of numbers: its stream for a key of `key_size` bytes, and an example that it must answer."""

    name: str
    key_size: int
    stream: Callable[[bytes], np.random.BitGenerator]
    example: Callable[[], np.random.BitGenerator]
    answer: bytes

    def check(self) -> None:
        """Raises PrivacyError unless the cipher of this installation computes what its standard says."""
        words: NDArray[np.uint64] = self.example().random_raw(len(self.answer) // 8)
        _check(f"{self.name} of randomgen", words, self.answer)


def _check(name: str, words: NDArray[np.uint64], answer: bytes) -> None:
    found = words.astype("<u8").tobytes()
    if found != answer:
        raise PrivacyError(f"{name}: {found.hex()}: expected the standard's {answer.hex()}")


def aes(key: bytes, block: bytes = bytes(16)) -> np.random.BitGenerator:
    """AES-128 of `block`, `block` + 1, ... (16 bytes, the lowest first) under `key` (16 bytes)."""
    counter = int.from_bytes(block, "little")
    stream: np.random.BitGenerator = AESCounter(key=int.from_bytes(key, "little"), counter=counter)
    return stream


def chacha(key: bytes) -> np.random.BitGenerator:
    """ChaCha20 under `key` (32 bytes), with nonce zero and blocks counted from zero."""
    stream: np.random.BitGenerator = ChaCha(key=int.from_bytes(key, "little"), rounds=20)
    return stream


# FIPS 197, appendix C.1
_KEY, _BLOCK = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
_ANSWER = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")

AES = Cipher("AES-128", 16, aes, lambda: aes(_KEY, _BLOCK), _ANSWER)
CHACHA = Cipher(
    "ChaCha20",
    32,
    chacha,
    lambda: chacha(bytes(32)),
    bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),  # RFC 8439, A.1, vector 1
)


class AESGenerator(np.random.Generator):
    """A generator on AES, which has a second stream for many words at once."""

    def __init__(self, bits: np.random.BitGenerator, key: bytes, block: bytes = bytes(16)) -> None:
        """Draws from `bits`; the words are AES-128 of `block`, `block` + 1, ... (the highest byte first)."""
        super().__init__(bits)
        self._many = OpenSSL(AES128(key), CTR(block)).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """[count] independent words of 64 bits.

        Raises:
            PrivacyError: OpenSSL gave fewer.
        """
        room = np.empty(count + 2, dtype=np.uint64)  # OpenSSL asks for a block more than it fills
        written = self._many.update_into(bytes(8 * count), room.view(np.uint8).data)  # zeros enciphered: the stream
        if written != 8 * count:
            raise PrivacyError(f"AES-128 of OpenSSL: {written} bytes: expected {8 * count}")
        return room[:count]


def secret_stream(cipher: Cipher | None = None) -> np.random.Generator:
    """A generator with fresh keys of its own; of the cipher that suits this processor, unless one is given.

    Raises:
        PrivacyError: the cipher of this installation does not compute what its standard says.
    """
    chosen = cipher or best_cipher()
    chosen.check()
    bits = chosen.stream(secrets.token_bytes(chosen.key_size))
    if chosen.name != AES.name:
        return np.random.Generator(bits)
    _check("AES-128 of OpenSSL", AESGenerator(aes(_KEY), _KEY, _BLOCK).words(2), _ANSWER)
    return AESGenerator(bits, secrets.token_bytes(AES.key_size))


def best_cipher() -> Cipher:
    """AES where the processor has instructions for it, which randomgen then uses; else ChaCha20."""
    return AES if AESCounter(0).use_aesni else CHACHA
