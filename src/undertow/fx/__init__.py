"""`torch.fx`: trace programs into graphs that Python code can inspect, change and run."""

from undertow.fx._symbolic_trace import Tracer as Tracer
from undertow.fx._symbolic_trace import symbolic_trace as symbolic_trace
from undertow.fx._symbolic_trace import wrap as wrap
from undertow.fx.graph import CodeGen as CodeGen
from undertow.fx.graph import Graph as Graph
from undertow.fx.graph_module import GraphModule as GraphModule
from undertow.fx.interpreter import Interpreter as Interpreter
from undertow.fx.interpreter import Transformer as Transformer
from undertow.fx.node import Node as Node
from undertow.fx.node import has_side_effect as has_side_effect
from undertow.fx.node import map_arg as map_arg
from undertow.fx.proxy import Proxy as Proxy
from undertow.fx.subgraph_rewriter import replace_pattern as replace_pattern

__all__ = [
    "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect",
    "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
