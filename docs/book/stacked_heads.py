# From "Build a Large Language Model (From Scratch)" by Sebastian Raschka,
# ch03.ipynb, section 3.6.1 (Apache-2.0, https://github.com/rasbt/LLMs-from-scratch).
# Shown beside our C++; not run.
class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList(
            [CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
             for _ in range(num_heads)]
        )

    def forward(self, x):
        # each head has its own W_q/W_k/W_v; run them in a loop, concat the results
        return torch.cat([head(x) for head in self.heads], dim=-1)
