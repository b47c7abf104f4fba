"""The small list of classes that the tests run: one for each family and each known cause."""

__all__ = ["QUICK"]

# model type, class, and the verdict that it has to have
QUICK = (
    ("bert", "BertModel", "exact"),
    ("gpt2", "GPT2LMHeadModel", "exact"),
    ("llama", "LlamaForCausalLM", "exact"),
    ("t5", "T5ForConditionalGeneration", "exact"),
    ("vit", "ViTModel", "exact"),
    ("mvp", "MvpForConditionalGeneration", "exact"),  # by hand, a first step of one token
    ("gemma2", "Gemma2ForCausalLM", "exact"),  # capped scores, windows, finite fills
    ("albert", "AlbertModel", "exact"),  # one module runs for several layers
    ("blip-2", "Blip2ForConditionalGeneration", "exact"),  # embeddings are given, not ids
    ("qwen2_vl", "Qwen2VLModel", "exact"),  # pictures packed into one sequence
    ("qwen3_next", "Qwen3NextForCausalLM", "named gap"),  # gated delta rule beside attention
    ("bamba", "BambaModel", "named gap"),  # state space layers beside attention
    ("convbert", "ConvBertModel", "exact"),  # dynamic convolution beside attention
    ("focalnet", "FocalNetModel", "no attention"),  # convolutions and gates
)
