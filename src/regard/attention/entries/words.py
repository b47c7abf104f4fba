"""What several entries say: papers, costs with n queries, m keys and width d, broken laws."""

BAHDANAU = "Bahdanau et al.: Neural machine translation by jointly learning to align and translate"
LUONG = "Luong, Pham, Manning: Effective approaches to attention-based neural machine translation"
VASWANI = "Vaswani et al.: Attention is all you need"
XU = "Xu et al.: Show, attend and tell"

FUSED = "O(n m d)"
ROWS = "O((n + m) d), the weights are never held"
BLOCKS = "O((n + m) d) and a block of scores; O(n m) under autograd"

PLACE = {"permutation": "the position of a key counts"}
CHOICE = {"gradients": "choosing one key is not differentiable"}
PROJECTED = {"empty row": "the output projection adds its own bias"}
