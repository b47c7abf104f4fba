"""Texts that several entries share: papers, costs (n queries, m keys, width d), broken laws."""

from regard.attention.entry import Text

BAHDANAU = "Bahdanau et al.: Neural machine translation by jointly learning to align and translate"
LUONG = "Luong, Pham, Manning: Effective approaches to attention-based neural machine translation"
VASWANI = "Vaswani et al.: Attention is all you need"
XU = "Xu et al.: Show, attend and tell"

FUSED = Text("O(n m d)")
ROWS = Text("O((n + m) d), the weights are never held", "O((n + m) d), 不保存权重")
BLOCKS = Text(
    "O((n + m) d) and a block of scores; O(n m) under autograd",
    "O((n + m) d) 加一块得分；求导时 O(n m)",
)

PLACE = {"permutation": Text("the position of a key counts", "键的位置会影响结果")}
CHOICE = {"gradients": Text("choosing one key is not differentiable", "只选一个键，不可微")}
PROJECTED = {
    "empty row": Text("the output projection adds its own bias", "输出投影会加上自己的偏置")
}
