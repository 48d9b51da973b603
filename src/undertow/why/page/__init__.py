"""The page of `undertow why --html`: one file with the graph, the hooks, the gradients over steps and the findings."""
