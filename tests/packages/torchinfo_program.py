"""Summaries of models, as torchinfo prints them."""

import torch
from torch import nn
from torchinfo import summary


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.lstm = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 10)
        self.frozen = nn.Linear(10, 10).requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x, mask=None):
        x = self.features(x).flatten(2).transpose(1, 2)
        x, _ = self.lstm(x)
        x, _ = self.attention(x, x, x)
        return self.frozen(self.head(x.mean(1))) * self.scale


COLUMNS = ("input_size", "output_size", "num_params", "params_percent", "kernel_size", "mult_adds", "trainable")
model = Net()
print(summary(model, (2, 1, 28, 28), verbose=0, col_names=COLUMNS, depth=4, row_settings=("var_names", "depth")))
summary(model, input_data=[torch.randn(3, 1, 16, 16)])
whole = summary(nn.Transformer(32, 4, 2, 2, 64), input_size=[(5, 2, 32), (4, 2, 32)], verbose=1)
print(whole.total_params, whole.trainable_params, whole.total_mult_adds, whole.total_output_bytes)
print(summary(nn.Embedding(10, 4), input_data=torch.tensor([[1, 2], [3, 4]]), verbose=0))
print(summary(model, verbose=0))
print(summary(nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.ReLU()}), verbose=0))
lazy = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
print(summary(lazy, input_size=(1, 7), verbose=0, device="cpu", dtypes=[torch.float32], mode="train"))
