import json

import pytest
import torch

from regard.storage import layout
from regard.storage.layout import ALIGNMENT, LENGTH_BYTES, MAGIC, Blob, Header, decode_header

BLOBS = (
    Blob("maps.0", torch.float32, (3, 5), 0, 60, 0xDEADBEEF),
    Blob("maps.1", torch.bool, (7,), 60, 67, 1),
)
HEADER = Header(BLOBS, {"我": [1, None, 0.1, "\ud83d", '"crc32":"00000000"']})


def test_a_header_comes_back_as_it_was():
    assert decode_header(HEADER.encode()) == HEADER


def test_a_header_without_blobs_comes_back_as_it_was():
    assert decode_header(Header((), []).encode()) == Header((), [])
    assert Header((), []).stop == 0


def test_a_header_is_as_long_whatever_the_checksums_are():
    others = tuple(Blob(b.name, b.dtype, b.shape, b.start, b.stop, 7) for b in BLOBS)
    assert len(Header(others, HEADER.state).encode()) == len(HEADER.encode())


def test_blobs_begin_at_an_aligned_place():
    assert (LENGTH_BYTES + len(HEADER.encode())) % ALIGNMENT == 0


def test_a_header_begins_with_its_format():
    assert HEADER.encode().startswith(MAGIC)


def test_every_flipped_bit_of_a_header_is_noticed():
    text = HEADER.encode()
    for place in range(len(text)):
        for bit in (1, 32):
            wrong = bytearray(text)
            wrong[place] ^= bit
            with pytest.raises((ValueError, LookupError, TypeError)):
                decode_header(bytes(wrong))


@pytest.mark.parametrize(("start", "stop"), [(4, 64), (0, 64), (-60, 0)])
def test_bytes_that_are_not_where_they_should_be_are_noticed(start, stop):
    wrong = Header((Blob("maps.0", torch.float32, (3, 5), start, stop),), {})
    with pytest.raises(ValueError, match=r"the bytes of maps.0 are not where they should be"):
        decode_header(wrong.encode())


def test_every_dtype_has_a_name_of_its_own():
    assert len(layout.DTYPES) == len(layout.DTYPE_NAMES)


def test_the_header_is_plain_ascii():
    assert json.loads(HEADER.encode().decode("ascii"))["__metadata__"]["version"] == "2"
