# SPDX-License-Identifier: Apache-2.0
"""The models of the gallery: how public libraries make them with random weights, and what they read."""
import torch

ROWS, WORDS = 1, 64  # of the inputs


class Of(torch.nn.Module):
    """Calls a function of the model; exporters need a module with tensors as inputs and outputs."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs):
        return self.call(self.model, *inputs)


def image(size=224):
    return (torch.randn(ROWS, 3, size, size),)


def words(vocabulary):
    return (torch.randint(0, vocabulary, (ROWS, WORDS)),)


def vision(name):
    import torchvision
    model = getattr(torchvision.models, name)(weights=None)
    if name.startswith('vit'):  # its last layer is zero at first
        torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model, image()


def bert():
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(attn_implementation='eager'), add_pooling_layer=False)
    return Of(model, lambda m, x: m(input_ids=x, attention_mask=torch.ones_like(x)).last_hidden_state), words(30000)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(attn_implementation='eager'))
    return Of(model, lambda m, x: m(input_ids=x, use_cache=False).logits), words(50257)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=32000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
                         attn_implementation='eager')
    return Of(LlamaForCausalLM(config), lambda m, x: m(input_ids=x, use_cache=False).logits), words(32000)


def qwen2():
    from transformers import Qwen2Config, Qwen2ForCausalLM
    config = Qwen2Config(vocab_size=32000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=2,
                         attn_implementation='eager')
    return Of(Qwen2ForCausalLM(config), lambda m, x: m(input_ids=x, use_cache=False).logits), words(32000)


def whisper():
    from transformers import WhisperConfig, WhisperModel
    config = WhisperConfig(d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536,
                           decoder_ffn_dim=1536, attn_implementation='eager')
    call = lambda m, x, y: m(input_features=x, decoder_input_ids=y, use_cache=False).last_hidden_state
    return Of(WhisperModel(config), call), (torch.randn(ROWS, 80, 3000), torch.randint(0, 50000, (ROWS, 16)))


def t5():
    from transformers import T5Config, T5Model
    model = T5Model(T5Config(d_model=512, d_ff=1024, num_layers=6, num_heads=8, feed_forward_proj='gated-gelu'))
    call = lambda m, x, y: m(input_ids=x, decoder_input_ids=y, use_cache=False).last_hidden_state
    return Of(model, call), (torch.randint(0, 32000, (ROWS, WORDS)), torch.randint(0, 32000, (ROWS, 16)))


def recurrent(kind):
    layer = getattr(torch.nn, kind)(128, 256, num_layers=2, batch_first=True)
    return Of(layer, lambda m, x: m(x)[0]), (torch.randn(ROWS, 64, 128),)


class UNet(torch.nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        self.down = torch.nn.ModuleList(block(a, b) for a, b in zip((3, *widths), widths))
        self.up = torch.nn.ModuleList(torch.nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = torch.nn.ModuleList(block(2 * a, a) for a in widths[:-1])
        self.last = torch.nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        stages = []
        for i, down in enumerate(self.down):
            x = down(torch.nn.functional.max_pool2d(x, 2) if i else x)
            stages.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([stages[i], self.up[i](x)], dim=1))
        return self.last(x)


def block(a, b):
    parts = [layer for c in (a, b) for layer in (torch.nn.Conv2d(c, b, 3, padding=1), torch.nn.BatchNorm2d(b), torch.nn.ReLU())]
    return torch.nn.Sequential(*parts)


MODELS = {
    **{name: (lambda name=name: vision(name)) for name in ('resnet18', 'mobilenet_v3_small', 'efficientnet_b0', 'vit_b_16', 'convnext_tiny', 'swin_t')},
    'bert': bert, 'gpt2': gpt2, 'llama': llama, 'qwen2': qwen2, 'whisper_tiny': whisper, 't5': t5,
    'lstm': lambda: recurrent('LSTM'), 'gru': lambda: recurrent('GRU'), 'unet': lambda: (UNet(), image(128)),
}
QUANTISED = ('resnet18', 'mobilenet_v3_small', 'bert', 'llama')  # in a form of 8 bits, too


def make(name):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.eval(), inputs
