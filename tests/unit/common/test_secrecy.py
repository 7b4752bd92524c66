"""Secret streams are those of standard ciphers, no two are alike, and their keys go nowhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from reference.ciphers import aes_block, aes_stream, chacha_block, chacha_stream, key_of

from common.errors import PrivacyError
from common.secrecy import AES, CHACHA, AESGenerator, Cipher, aes, best_cipher, chacha, secret_stream
from common.seeds import stream


def drawn(cipher: np.random.BitGenerator, size: int) -> bytes:
    return cipher.random_raw(size // 8).astype("<u8").tobytes()


def test_the_references_give_the_examples_of_the_standards() -> None:
    assert (
        aes_block(bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")).hex()
        == "69c4e0d86a7b0430d8cdb78070b4c55a"  # FIPS 197, C.1
    )
    assert (
        aes_block(bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"), bytes.fromhex("3243f6a8885a308d313198a2e0370734"))
        == bytes.fromhex("3925841d02dc09fbdc118597196a0b32")  # FIPS 197, B
    )
    assert chacha_block(bytes(range(32)), (1, 0x09000000, 0x4A000000, 0)).hex() == (  # RFC 8439, 2.3.2
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


@pytest.mark.parametrize("key", [bytes(32), bytes(range(32)), bytes(range(200, 232))])
def test_the_streams_are_those_of_the_ciphers(key: bytes) -> None:
    assert drawn(aes(key[:16]), 16 * 21) == aes_stream(key[:16], 21)
    assert drawn(chacha(key), 64 * 7) == chacha_stream(key, 7)
    near_the_end = 2**64 - 2  # of the counter's lower half
    assert drawn(aes(key[:16], near_the_end.to_bytes(16, "little")), 16 * 8) == aes_stream(key[:16], 8, near_the_end)


REFERENCES = {"AES-128": (aes_stream, 16), "ChaCha20": (chacha_stream, 64)}


@pytest.mark.parametrize("cipher", [AES, CHACHA, None], ids=["aes", "chacha", "best"])
def test_a_secret_stream_is_its_ciphers_under_its_key(cipher: Cipher | None) -> None:
    generator = secret_stream(cipher)
    chosen = cipher or best_cipher()
    reference, block = REFERENCES[chosen.name]
    key = key_of(generator)
    assert len(key) == chosen.key_size
    assert drawn(generator.bit_generator, 640) == reference(key, 640 // block)
    assert reference(bytes([key[0] ^ 1, *key[1:]]), 1) != reference(key, 1)  # the control


@pytest.mark.parametrize("cipher", [AES, CHACHA], ids=["aes", "chacha"])
def test_a_cipher_that_computes_something_else_gets_no_key(cipher: Cipher) -> None:
    cipher.check()
    asked: list[bytes] = []

    def broken(key: bytes) -> np.random.BitGenerator:
        asked.append(key)
        return stream(1, "broken").bit_generator

    for wrong in (replace(cipher, example=lambda: stream(1).bit_generator), replace(cipher, answer=bytes(16))):
        with pytest.raises(PrivacyError, match=f"{cipher.name} of randomgen: .*: expected the standard's"):
            secret_stream(replace(wrong, stream=broken))
    assert asked == []


def test_many_words_are_aes_in_counter_mode() -> None:
    key, near_the_end = bytes(range(3, 19)), 2**64 - 2  # of the counter's lower half
    words = AESGenerator(aes(bytes(16)), key, near_the_end.to_bytes(16, "big"))
    found = b"".join(words.words(count).astype("<u8").tobytes() for count in (1, 5, 0, 10))
    assert found == b"".join(aes_block(key, (near_the_end + count).to_bytes(16, "big")) for count in range(8))


def test_many_words_are_secret_and_shared_by_no_two_streams() -> None:
    streams = [secret_stream(AES) for _ in range(2)]
    drawn = {tuple(one.words(4).tolist()) for one in streams if isinstance(one, AESGenerator)}
    assert len(drawn) == 2
    for one in streams:
        assert isinstance(one, AESGenerator)
        again = AESGenerator(aes(bytes(16)), key_of(one))  # the key of the other numbers is not theirs
        assert tuple(again.words(4).tolist()) not in drawn


def test_an_openssl_that_computes_something_else_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    secret_stream(AES)
    monkeypatch.setattr(AESGenerator, "words", lambda self, count: np.zeros(count, dtype=np.uint64))
    with pytest.raises(PrivacyError, match=r"AES-128 of OpenSSL: 0+: expected the standard's"):
        secret_stream(AES)


def test_no_two_streams_share_a_key() -> None:
    keys = {key_of(secret_stream()) for _ in range(1000)}
    assert len(keys) == 1000
    bits = np.unpackbits(np.frombuffer(b"".join(keys), dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)


def test_two_processes_share_nothing() -> None:
    code = "from common.secrecy import secret_stream; print(secret_stream().integers(2**63, size=4).tolist())"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(2)]
    assert runs[0].stdout != runs[1].stdout
    seeded = code.replace("secrecy import secret_stream", "seeds import stream").replace("secret_stream()", "stream(1)")
    again = [subprocess.run([sys.executable, "-c", seeded], capture_output=True, check=True) for _ in range(2)]
    assert again[0].stdout == again[1].stdout  # the control


@pytest.mark.parametrize("cipher", [lambda: aes(bytes(16)), lambda: chacha(bytes(32))], ids=["aes", "chacha"])
def test_threads_that_share_a_generator_get_different_numbers(cipher: Callable[[], np.random.BitGenerator]) -> None:
    generator, alone = np.random.Generator(cipher()), np.random.Generator(cipher())
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: generator.integers(2**64, size=500, dtype=np.uint64), range(20)))
    found = np.sort(np.concatenate(parts))
    assert np.array_equal(found, np.sort(alone.integers(2**64, size=10_000, dtype=np.uint64)))


def test_a_secret_stream_can_do_what_a_seeded_one_can() -> None:
    for generator in (secret_stream(), stream(1, "x")):
        normals = generator.standard_normal(40_000)
        assert normals.dtype == np.float64
        assert abs(normals.mean()) < 5 / 200
        assert abs(normals.var() - 1) < 5 * np.sqrt(2) / 200
        uniform = generator.random(40_000)
        assert abs(uniform.mean() - 0.5) < 5 / np.sqrt(12) / 200
        assert len(set(generator.choice(50, 12, replace=False, shuffle=False).tolist())) == 12
