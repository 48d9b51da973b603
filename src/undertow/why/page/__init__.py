"""The page of `undertow why --html`: one file with the graph, hooks, gradients over steps, and findings."""
