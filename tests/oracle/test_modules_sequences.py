"""Recurrent layers, attention and the Transformer against torch: same seed, same outputs, same gradients."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree

LAYERS = ["RNN", "GRU", "LSTM"]
OPTIONS = {
    "plain": {},
    "two layers both ways": {"num_layers": 2, "bidirectional": True},
    "batch first with dropout": {"batch_first": True, "dropout": 0.5, "num_layers": 2},
    "no bias": {"bias": False},
}


def differentiate(module, outputs, *inputs):
    """Everything worth comparing: outputs, and the gradients of their squares."""
    shown = [output for output in outputs if output is not None]
    sum((output**2).sum() for output in shown).backward()
    gradients = [parameter.grad for parameter in module.parameters()]
    return [output.detach() for output in shown], gradients, [given.grad for given in inputs]


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("layer", LAYERS)
def test_recurrent_layers(layer, options):
    def program(torch):
        module = getattr(torch.nn, layer)(3, 4, **options)
        x = torch.randn(5, 2, 3, requires_grad=True)
        output, state = module(x)
        return list(module.state_dict()), repr(module), differentiate(module, (output, *as_tuple(state)), x)

    agree(program)


@pytest.mark.parametrize("layer", LAYERS)
def test_second_gradients_of_recurrent_layers(layer):
    def program(torch):
        module = getattr(torch.nn, layer)(2, 3).double()
        x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
        output, _ = module(x)
        (first,) = torch.autograd.grad((output**2).sum(), x, create_graph=True)
        return first.detach(), torch.autograd.grad((first**2).sum(), [x, *module.parameters()])

    agree(program)


@pytest.mark.parametrize("layer", LAYERS)
def test_given_states_and_unbatched_input(layer):
    def program(torch):
        module = getattr(torch.nn, layer)(3, 4)
        state = torch.randn(1, 2, 4, requires_grad=True)
        given = (state, state * 2) if layer == "LSTM" else state
        output, last = module(torch.randn(5, 2, 3), given)
        results = differentiate(module, (output, *as_tuple(last)), state)
        return results, module(torch.randn(5, 3))[0].shape

    agree(program)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("lengths", [[5, 3, 1], [3, 5, 1]])
def test_packed_sequences(layer, lengths):
    def program(torch):
        tools = torch.nn.utils.rnn
        module = getattr(torch.nn, layer)(3, 4, bidirectional=True)
        x = torch.randn(5, 3, 3, requires_grad=True)
        packed = tools.pack_padded_sequence(x, lengths, enforce_sorted=False)
        output, state = module(packed)
        padded, found = tools.pad_packed_sequence(output)
        return found, differentiate(module, (padded, *as_tuple(state)), x)

    agree(program)


def test_projection():
    def program(torch):
        module = torch.nn.LSTM(3, 4, proj_size=2, bidirectional=True, num_layers=2)
        x = torch.randn(5, 2, 3, requires_grad=True)
        output, state = module(x)
        return list(module.state_dict()), repr(module), differentiate(module, (output, *state), x)

    agree(program)


@pytest.mark.parametrize("cell", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells(cell):
    def program(torch):
        module = getattr(torch.nn, cell)(3, 4)
        x = torch.randn(2, 3, requires_grad=True)
        first = module(x)
        return repr(module), differentiate(module, as_tuple(module(x, first)), x)

    agree(program)


def test_refused_arguments():
    def program(torch, log):
        def attempt(make):
            try:
                make()
            except Exception as error:
                log(type(error).__name__, " ".join(str(error).split()[:9]))

        nn, ones = torch.nn, torch.ones
        attempt(lambda: nn.LSTM(3, 4)(ones(2, 2, 2, 2)))
        attempt(lambda: nn.LSTM(3, 4)(ones(2, 2, 5)))
        attempt(lambda: nn.LSTM(3, 4)(ones(2, 2, 3), (ones(1, 3, 4), ones(1, 2, 4))))
        attempt(lambda: nn.LSTM(3, 4)(ones(2, 3), (ones(1, 3, 4), ones(1, 2, 4))))
        attempt(lambda: nn.GRU(3, 4)(ones(2, 2, 3), ones(3, 4)))
        attempt(lambda: nn.RNN(3, 4)(ones(2, 2, 2, 2)))
        attempt(lambda: nn.RNN(3, 4)(ones(2, 2, 3).double()))
        attempt(lambda: nn.RNN(3, 4, nonlinearity="step"))
        attempt(lambda: nn.GRU(3, 4, proj_size=2))
        attempt(lambda: nn.LSTM(3, 4, proj_size=4))
        attempt(lambda: nn.LSTM(3, 4, dropout=2))
        attempt(lambda: nn.LSTM(3, 0))
        attempt(lambda: nn.LSTMCell(3, 4)(ones(2, 2)))
        attempt(lambda: nn.GRUCell(3, 4)(ones(2, 3), ones(1, 4)))
        attempt(lambda: nn.utils.rnn.pack_padded_sequence(ones(4, 2, 3), [2, 4]))
        attempt(lambda: nn.utils.rnn.pack_padded_sequence(ones(4, 2, 3), [4, 0]))

    agree(program)


def test_packing_tools():
    def program(torch):
        tools = torch.nn.utils.rnn
        parts = [torch.arange(3.0), torch.arange(2.0), torch.arange(1.0)]
        packed = tools.pack_sequence(parts)
        return (
            packed.data,
            packed.batch_sizes,
            tools.unpack_sequence(packed),
            tools.pad_sequence(parts, batch_first=True, padding_value=-1.0),
            tools.pad_sequence(parts, padding_side="left"),
            tools.pad_packed_sequence(packed, total_length=4),
            repr(tools.pack_sequence(parts[::-1], enforce_sorted=False)),
        )

    agree(program)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_first": True}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 3, "vdim": 5}, {"bias": False}],
    ids=str,
)
def test_multi_head_attention(options, need_weights):
    def program(torch):
        module = torch.nn.MultiheadAttention(4, 2, **options)
        query = torch.randn(3, 3, 4, requires_grad=True)
        key, value = torch.randn(3, 3, options.get("kdim", 4)), torch.randn(3, 3, options.get("vdim", 4))
        mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
        outputs = module(query, key, value, attn_mask=mask, need_weights=need_weights)
        return list(module.state_dict()), repr(module), differentiate(module, outputs, query)

    agree(program)


@pytest.mark.parametrize(
    "options",
    [{"batch_first": True}, {"norm_first": True, "activation": "gelu", "batch_first": True}],
    ids=["post-norm", "pre-norm with gelu"],
)
def test_transformer(options):
    def program(torch):
        module = torch.nn.Transformer(8, 2, 2, 2, 16, **options)
        source, target = torch.randn(3, 3, 8, requires_grad=True), torch.randn(3, 3, 8)
        padding = torch.zeros(3, 3, dtype=torch.bool)
        padding[0, 2] = True
        mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
        output = module(source, target, tgt_mask=mask, src_key_padding_mask=padding)
        return list(module.state_dict()), differentiate(module, (output,), source)

    agree(program, rtol=1e-4, atol=1e-4)


def test_weights_put_in_the_place_of_parameters():
    def program(torch, log):
        torch.manual_seed(0)
        layer, x = torch.nn.LSTM(2, 3, num_layers=2, bidirectional=True), torch.randn(4, 1, 2)
        others = [(weight * 2).detach().requires_grad_() for weight in layer._flat_weights]
        layer._flat_weights = others
        layer(x)[0].sum().backward()
        log([other.grad for other in others], layer.weight_ih_l0.grad, layer._flat_weights is others)
        layer.weight_ih_l0 = torch.nn.Parameter(torch.zeros(12, 2))
        log(layer(x)[0])
        layer._flat_weights = others
        layer.double()
        log([weight.dtype for weight in layer._flat_weights], layer(x.double())[0])

    agree(program)
