"""Makes the word vectors that the Chinese recipes begin with from those of the package `synonyms`.

    pip download --no-deps --no-binary :all: synonyms==3.10.2 && tar xzf synonyms-3.10.2.tar.gz
    python recipes/vectors/prepare_zh.py synonyms-3.10.2/synonyms/data/words.vector

The file holds 125,796 words with 100 numbers each, the frequent ones first, in word2vec's binary
format (Chatopera Synonyms, MIT). Words of one and two Chinese characters are kept, their vectors
are reduced to their first --dim principal components, and written as lines `word v1 v2 ...`.
"""

import argparse
import re
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SHORT_WORD = re.compile("[\u4e00-\u9fff]{1,2}")


def read_binary(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The words and vectors of a file in word2vec's binary format."""
    data = path.read_bytes()
    header, _, _ = data.partition(b"\n")
    count, dim = map(int, header.split())
    place, words = len(header) + 1, list[str]()
    vectors = np.empty((count, dim), np.float32)
    for row in range(count):
        end = data.index(b" ", place)
        words.append(data[place:end].strip().decode("utf-8", errors="replace"))
        vectors[row] = np.frombuffer(data, np.float32, dim, end + 1)
        place = end + 1 + 4 * dim
    return words, vectors


def reduce_dimension(vectors: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """The first principal components of some vectors, around their mean."""
    centred = vectors - vectors.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    reduced: NDArray[np.float32] = centred @ directions[:, ::-1][:, :dim]
    return reduced


def main() -> None:
    """Write the file of vectors, and print how many words it has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="words.vector of the package synonyms")
    parser.add_argument("--dim", type=int, default=64, help="numbers of a vector")
    parser.add_argument("--words", type=int, default=60000, help="words that are kept at most")
    parser.add_argument("--to", type=Path, default=Path("recipes/vectors/corpus/zh.txt"))
    args = parser.parse_args()
    if not args.source.is_file():
        sys.exit(f"no file {args.source}; download it first, see the top of this script")
    words, vectors = read_binary(args.source)
    short = [row for row, word in enumerate(words) if SHORT_WORD.fullmatch(word)][: args.words]
    reduced = reduce_dimension(vectors[short], args.dim)
    lines = (
        f"{words[row]} {' '.join(f'{value:.4f}' for value in vector)}\n"
        for row, vector in zip(short, reduced, strict=True)
    )
    args.to.parent.mkdir(parents=True, exist_ok=True)
    args.to.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{args.to}  {len(short)} words of {args.dim} numbers\n")


if __name__ == "__main__":
    main()
