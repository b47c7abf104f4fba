"""The small list of classes that the tests run: one or two of each family of mechanisms."""

__all__ = ["QUICK"]

# model type, class
QUICK = (
    ("bert", "BertModel"),
    ("gpt2", "GPT2LMHeadModel"),
    ("llama", "LlamaForCausalLM"),
    ("t5", "T5ForConditionalGeneration"),
    ("vit", "ViTModel"),
)
