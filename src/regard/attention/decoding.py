"""What decoding a token needs of the native kernels, for the rooms above this one."""

from regard.kernels import best
from regard.kernels.decoding import Block, Linear, Norm, Step, decoder, reader
from regard.kernels.few import MOST

__all__ = ["MOST", "Block", "Linear", "Norm", "Step", "best", "decoder", "reader"]
